%matplotlib inline
import matplotlib.pyplot as plt
import numpy as np
# %%
plt.plot([1, 2, 3], [4, 5, 6])
plt.title("A line")
plt.show()
# %%
plt.plot([1, 2, 3]);
# %%
fig, ax = plt.subplots()
ax.bar(["a", "b"], [1, 2])
ax.set_ylabel("value")
plt.show()
# %%
for i in range(3):
    plt.figure()
    plt.plot(np.arange(5) * i)
# %%
fig, axes = plt.subplots(2, 2, figsize=(6, 6))
axes[0, 0].scatter([1, 2], [3, 4])
axes[0, 1].hist([1, 1, 2, 3])
axes[1, 0].pie([1, 2, 3], labels=["x", "y", "z"])
axes[1, 1].boxplot([[1, 2, 3], [2, 3, 10]])
plt.tight_layout()
plt.show()
# %%
print("before")
plt.plot([1, 2])
plt.show()
print("after")
plt.plot([2, 1])
plt.show()
# %%
fig = plt.figure()
plt.close(fig)
# %%
plt.plot([1, 2])
plt.savefig("/tmp/cay-notebook-test.png")
plt.close()
import os
os.path.exists("/tmp/cay-notebook-test.png")
# %%
plt.plot([1, 2])
raise ValueError("after a plot")
# %%
plt.get_fignums()
# %%
import pandas as pd
pd.DataFrame({"a": [1, 2, 3], "b": [3, 2, 1]}).plot();
# %%
pd.Series([1, 3, 2], index=pd.date_range("2024-01-01", periods=3)).plot(title="dates");
# %%
plt.imshow(np.eye(4), cmap="gray")
plt.colorbar()
plt.show()
# %%
with plt.style.context("ggplot"):
    plt.fill_between([1, 2, 3], [1, 2, 1], alpha=0.3)
    plt.show()
# %%
fig = plt.figure()
ax = fig.add_subplot(projection="3d")
ax.plot([1, 2], [1, 2], [1, 2])
plt.show()
# %%
plt.semilogy([1, 10, 100])
plt.errorbar([0, 1], [1, 10], yerr=[0.1, 1])
plt.legend(["a", "b"])
plt.show()
