import numpy as np
np.arange(12).reshape(3, 4)
# %%
np.linspace(0, 1, 5)
# %%
np.zeros((2, 2)), np.eye(2)
# %%
np.arange(5000)
# %%
np.array([1.5, np.nan, np.inf])
# %%
a = np.array([[1, 2], [3, 4]])
a @ a
# %%
np.linalg.inv(a)
# %%
np.linalg.inv(np.zeros((2, 2)))
# %%
a.mean(), a.sum(axis=0), a.dtype, a.shape
# %%
np.random.RandomState(7).normal(size=4)
# %%
a[5, 5]
# %%
np.array([1, 2]) + np.array([1, 2, 3])
# %%
np.float64(1) / 0
# %%
from scipy import optimize, stats
optimize.minimize_scalar(lambda x: (x - 2) ** 2).x.round(6)
# %%
stats.norm.cdf(0), stats.ttest_ind([1, 2, 3], [2, 3, 4]).pvalue.round(6)
# %%
from sklearn.linear_model import LinearRegression
model = LinearRegression().fit([[1], [2], [3]], [2, 4, 6])
model.coef_.round(6), model.predict([[4]]).round(6)
# %%
model
# %%
from sklearn.datasets import load_iris
iris = load_iris()
iris.data.shape, list(iris.target_names)
# %%
np.array(["a", "bb"]), np.array([{1}], dtype=object), np.datetime64("2024-01-01")
# %%
[np.float64(1.5), np.int64(2)]
