%matplotlib inline
!echo from the shell
# %%
files = !printf 'one\ntwo\n'
files
# %%
len(files), files[0]
# %%
%env CAY_NOTEBOOK=yes
# %%
!echo $CAY_NOTEBOOK
# %%
name = "world"
!echo hello {name} $name
# %%
%cd /usr
# %%
%pwd
# %%
%%bash
for i in 1 2 3; do
  echo "line $i"
done
# %%
%%writefile /tmp/cay-notebook-made.txt
some text
more text
# %%
!cat /tmp/cay-notebook-made.txt
# %%
!rm /tmp/cay-notebook-made.txt
# %%
%nosuchmagic
# %%
%%nosuchcellmagic
x
# %%
%%capture out
print("captured")
# %%
out.stdout
# %%
%%html
<i>html</i>
# %%
value = 3
!test $value -eq 3 && echo three
# %%
%%bash
exit 4
# %%
if True:
    !echo indented
# %%
    y = 2
    y * 2
# %%
>>> z = 3
>>> z + 1
# %%
text = """
!not a command
%not a magic
"""
!echo real
print(text)
# %%
%cd /tmp
!pwd
# %%
%%time
time_value = 5
# %%
time_value
