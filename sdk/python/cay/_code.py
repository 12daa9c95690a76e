# SPDX-License-Identifier: Apache-2.0
"""The code interpreter."""

from __future__ import annotations

import json
from typing import Any, Callable, Dict, List, Mapping, Optional

from ._link import Link
from ._settings import absolute, given, milliseconds, texts
from ._sse import ServerEvent
from ._stream import AsyncStream, Follower, named
from .types import (
    CodeCompleteEvent,
    CodeContext,
    CodeError,
    CodeErrorEvent,
    CodeEvent,
    CodeOutputEvent,
    CodeResultEvent,
    CodeStartEvent,
    Duration,
    Execution,
    Language,
    Logs,
    Ref,
    Result,
    id_of,
)


def read_code_event(event: ServerEvent) -> Optional[CodeEvent]:
    body = json.loads(event.data)
    if event.name == "start":
        return CodeStartEvent.read(body)
    if event.name in ("stdout", "stderr"):
        return CodeOutputEvent.read(body, type=event.name)
    if event.name in ("result", "display"):
        return CodeResultEvent.read(body, type=event.name, result=Result.read(body, type=event.name))
    if event.name == "error":
        return CodeErrorEvent.read(body, error=CodeError.read(body))
    return CodeCompleteEvent.read(body) if event.name == "end" else None


class Code:
    """Code goes in as text; what it printed, its value, its tables and its pictures come back."""

    _link: Link

    async def create_code_context(
        self,
        language: str = "python",
        *,
        id: Optional[str] = None,
        cwd: Optional[str] = None,
        env: Optional[Mapping[str, Any]] = None,
        timeout: Optional[Duration] = None,
    ) -> CodeContext:
        """An interpreter that stays. `timeout` is for each of its cells that has none of its own: a minute unless given."""
        own = {**self._link.env, **(texts(env) or {})}
        body = given(
            language=language,
            id=id,
            cwd=None if cwd is None else absolute(cwd),
            env=own or None,
            timeout=milliseconds(timeout),
        )
        return CodeContext.read(await self._link.post("/contexts", body, once=True))

    async def list_code_contexts(self) -> List[CodeContext]:
        return [CodeContext.read(c) for c in (await self._link.look("/contexts"))["contexts"]]

    async def get_code_context(self, context: Ref) -> CodeContext:
        return CodeContext.read(await self._link.look(f"/contexts/{id_of(context)}"))

    async def delete_code_context(self, context: Ref) -> None:
        await self._link.json("DELETE", f"/contexts/{id_of(context)}", first=False)

    async def interrupt_code_context(self, context: Ref) -> None:
        """The cell that runs in it ends, "interrupted"."""
        await self._link.post(f"/contexts/{id_of(context)}/interrupt", repeatable=False)

    async def restart_code_context(self, context: Ref) -> CodeContext:
        """A new interpreter that knows nothing."""
        return CodeContext.read(await self._link.post(f"/contexts/{id_of(context)}/restart", repeatable=True))

    async def list_languages(self) -> List[Language]:
        return [Language.read(one) for one in (await self._link.json("GET", "/languages"))["languages"]]

    def _cell(
        self,
        code: str,
        context: Optional[Ref],
        language: Optional[str],
        env: Optional[Mapping[str, Any]],
        timeout: Optional[Duration],
    ) -> Dict[str, Any]:
        own = texts(env)
        if context is None and self._link.env:  # a context has had them from its beginning
            own = {**self._link.env, **(own or {})}
        place = None if context is None else id_of(context)
        return {"code": code, **given(context=place, language=language, env=own, timeout=milliseconds(timeout))}

    async def run_code(
        self,
        code: str,
        *,
        context: Optional[Ref] = None,
        language: Optional[str] = None,
        env: Optional[Mapping[str, Any]] = None,
        timeout: Optional[Duration] = None,
        on_stdout: Optional[Callable[[str], Any]] = None,
        on_stderr: Optional[Callable[[str], Any]] = None,
        on_result: Optional[Callable[[Result], Any]] = None,
        on_error: Optional[Callable[[CodeError], Any]] = None,
        idempotency_key: Optional[str] = None,
    ) -> Execution:
        """Runs a piece of code and waits for its end. Code that fails is a result with an `error`.

        context: where it runs, with the variables that are there; otherwise the default one of the language.
        language: python unless given; a context has its own.
        env: for this piece alone.
        on_...: are called as it is written, and shown."""
        body = self._cell(code, context, language, env, timeout)
        key = idempotency_key or self._link.core.key()
        if on_stdout is None and on_stderr is None and on_result is None and on_error is None:
            return Execution.read(await self._link.json("POST", "/code", json=body, key=key))
        told: Dict[str, Optional[Callable[[Any], Any]]] = {
            "stdout": on_stdout,
            "stderr": on_stderr,
            "result": on_result,
            "error": on_error,
        }
        return await self._gather_cell(self._stream_cell(body, key), code, told)

    async def _gather_cell(
        self, stream: AsyncStream[CodeEvent], code: str, told: Mapping[str, Optional[Callable[[Any], Any]]]
    ) -> Execution:
        start, error = CodeStartEvent(), None
        results: List[Result] = []
        written: Dict[str, List[str]] = {"stdout": [], "stderr": []}

        async def tell(name: str, value: Any) -> None:
            callback = told[name]
            if callback is not None:
                await self._link.core.net.call(callback, value)

        async with stream:
            async for event in stream:
                if isinstance(event, CodeStartEvent):
                    start = event
                elif isinstance(event, CodeOutputEvent):
                    written[event.type].append(event.text)
                    await tell(event.type, event.text)
                elif isinstance(event, CodeResultEvent):
                    results.append(event.result)
                    await tell("result", event.result)
                elif isinstance(event, CodeErrorEvent):
                    error = event.error
                    await tell("error", error)
                else:
                    logs = Logs(**{name: ["".join(texts)] if texts else [] for name, texts in written.items()})
                    execution = Execution.read({**event.raw, "id": start.id, "language": start.language, "code": code})
                    execution.logs, execution.results, execution.error = logs, results, error
                    execution.context = start.context
                    return execution
        raise AssertionError("a stream that ends without its last event raises")

    def run_code_stream(
        self,
        code: str,
        *,
        context: Optional[Ref] = None,
        language: Optional[str] = None,
        env: Optional[Mapping[str, Any]] = None,
        timeout: Optional[Duration] = None,
        idempotency_key: Optional[str] = None,
    ) -> AsyncStream[CodeEvent]:
        """The same, told as it happens. A connection that breaks is made again; leaving early interrupts the code."""
        body = self._cell(code, context, language, env, timeout)
        return self._stream_cell(body, idempotency_key or self._link.core.key())

    def _stream_cell(self, body: Dict[str, Any], key: Optional[str]) -> AsyncStream[CodeEvent]:
        link, started = self._link, [""]
        call = link.call("POST", "/code", json=body, key=key)
        follower = Follower(link.core, call, link.open, last=named("end"), what="what the code does")

        def read(event: ServerEvent) -> Optional[CodeEvent]:
            value = read_code_event(event)
            if isinstance(value, CodeStartEvent):
                started[0] = value.id
            return value

        async def end() -> None:
            if started[0]:
                await link.remove(f"/code/{started[0]}")

        return AsyncStream(follower, read, end)
