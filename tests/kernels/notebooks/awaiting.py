import asyncio
await asyncio.sleep(0.01)
# %%
async def fetch(n):
    await asyncio.sleep(0.01)
    return n * 2

await fetch(21)
# %%
await asyncio.gather(*(fetch(i) for i in range(5)))
# %%
async def numbers():
    for i in range(3):
        yield i
        await asyncio.sleep(0)

async for n in numbers():
    print(n)
# %%
[n async for n in numbers()]
# %%
lock = asyncio.Lock()
async with lock:
    print("locked", lock.locked())
# %%
task = asyncio.create_task(fetch(5))
# %%
await task
# %%
await asyncio.wait_for(asyncio.sleep(5), timeout=0.01)
# %%
async def fails():
    raise LookupError("in a coroutine")
await fails()
# %%
queue = asyncio.Queue()
async def producer():
    for i in range(3):
        await queue.put(i)
async def consumer():
    return [await queue.get() for _ in range(3)]
(await asyncio.gather(producer(), consumer()))[1]
# %%
import concurrent.futures
with concurrent.futures.ThreadPoolExecutor(2) as pool:
    squares = list(pool.map(lambda x: x * x, range(5)))
squares
# %%
loop = asyncio.get_event_loop()
await loop.run_in_executor(None, sum, [1, 2, 3])
# %%
process = await asyncio.create_subprocess_exec("echo", "from a program", stdout=asyncio.subprocess.PIPE)
(await process.communicate())[0]
# %%
x = await fetch(1)
y = await fetch(x)
x, y
# %%
event = asyncio.Event()
asyncio.get_running_loop().call_later(0.01, event.set)
await event.wait()
# %%
await 5
