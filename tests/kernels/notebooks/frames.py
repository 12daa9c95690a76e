import numpy as np
import pandas as pd
df = pd.DataFrame({"city": ["Oslo", "Lima", "Cairo", "Kyoto"], "people": [709, 10719, 10100, 1464], "high": [23, 161, 23, None]})
df
# %%
df.describe()
# %%
df.dtypes
# %%
df.people
# %%
df[df.people > 1000].sort_values("people", ascending=False).reset_index(drop=True)
# %%
df.head(2)
# %%
print(df)
# %%
df.groupby("high").people.agg(["mean", "max"])
# %%
df.shape, df.columns, df.index
# %%
pd.DataFrame(np.arange(2000).reshape(100, 20))
# %%
df.info()
# %%
display(df.head(1), df.tail(1))
# %%
pd.Series([1, 2, 3], index=list("abc"), name="letters")
# %%
pd.date_range("2024-01-01", periods=3, freq="D")
# %%
df["no such column"]
# %%
df.assign(double=df.people * 2).to_dict("records")
# %%
wide = pd.DataFrame(np.round(np.random.RandomState(0).rand(3, 30), 3))
wide
# %%
print(wide)
# %%
pd.pivot_table(df, values="people", index="city")
# %%
df.isna().sum()
# %%
df.merge(pd.DataFrame({"city": ["Oslo"], "land": ["Norway"]}), on="city", how="left")
# %%
pd.Timestamp("2024-05-06 07:08"), pd.Timedelta("1 day"), pd.NaT
# %%
df.to_csv(index=False)
# %%
import io
pd.read_csv(io.StringIO("a,b\n1,2\n3,4"))
# %%
pd.Categorical(["a", "b", "a"])
# %%
df.style
# %%
pd.options.display.max_rows, pd.options.display.width
