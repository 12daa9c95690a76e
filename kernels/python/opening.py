# SPDX-License-Identifier: Apache-2.0
"""A kernel becomes a context: environment, directory, where modules are found.

A fork of a zygote also sheds what it shares with its siblings, and looks whether the libraries that were loaded ahead
are those that this box would have loaded.
"""

from cay_kernel.own import BUILTINS as __builtins__

import os
import sys
import time

_libraries = {}  # name: (directory on sys.path, file, size and time of it)
_site_times = {}  # directory: (when it was changed, its .pth files)
_base_path = None


def _stamp(path):
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns


def _pth_files(directory):
    try:
        return {name for name in os.listdir(directory) if name.endswith(".pth")}
    except OSError:
        return set()


def _site_directories():
    import site

    return site.getsitepackages()


def note_libraries():
    """In the zygote, when it has imported what it will: what the forks are to find in their boxes."""
    standard = os.path.dirname(os.__file__)
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if "." in name or not isinstance(file, str) or name.startswith(("cay_", "_")) or name == "__main__":
            continue
        is_package = os.path.basename(file).startswith("__init__.")
        base = os.path.dirname(os.path.dirname(file) if is_package else file)
        if base == standard or base.startswith(os.path.join(standard, "lib-dynload")):
            continue
        _libraries[name] = (base, file, _stamp(file))
    for directory in _site_directories():
        _site_times[directory] = (_stamp(directory), _pth_files(directory))


def is_untouched():
    """Whether the box has the packages of its image, and no others: then there is no .pth file that would run."""
    if os.path.isdir("/root/.local/lib"):
        return False
    return all(_stamp(directory) == stamp for directory, (stamp, _) in _site_times.items())


def settle_finders():
    """In the zygote. Finders see by a directory's time that it has changed, so forks keep those they inherit: to free
    them would copy 700 pages. What was no directory is looked at again."""
    for entry in [entry for entry, finder in sys.path_importer_cache.items() if finder is None]:
        del sys.path_importer_cache[entry]


def forget_siblings():
    """Random numbers, names and keys that were drawn before the fork would be the same in each."""
    loaded = sys.modules.get
    if loaded("random"):
        sys.modules["random"].seed()
    if loaded("numpy.random"):
        sys.modules["numpy.random"].seed()
    if loaded("tempfile"):
        sys.modules["tempfile"]._name_sequence = None
        sys.modules["tempfile"].tempdir = None
    if loaded("uuid"):
        sys.modules["uuid"]._node = sys.modules["uuid"]._last_timestamp = None
    if loaded("_ssl"):
        sys.modules["_ssl"].RAND_add(os.urandom(32), 32.0)
    process = loaded("multiprocessing.process")
    if process:
        process.current_process()._config["authkey"] = process.AuthenticationString(os.urandom(32))


def open_context(payload, is_fork):
    """(answer, message)"""
    language, directory, *variables = [os.fsdecode(part) for part in payload.split(b"\0")[:-1]]
    try:
        os.chdir(directory)
    except OSError as error:
        return b"failed", "cannot enter %s: %s" % (directory, error.strerror)
    os.environ.clear()
    for variable in variables:
        name, _, value = variable.partition("=")
        if name:
            os.environ[name] = value
    time.tzset()
    sys.argv[:] = [""]
    set_path(is_fork)
    if is_fork:
        other = find_other_library()
        if other:
            return b"unfit", other
        forget_places()
    return b"opened", ""


def set_path(is_fork):
    """As `python3` would have it in this directory, though the kernel itself was started apart from both."""
    global _base_path
    if _base_path is None:
        _base_path = [entry for entry in sys.path if entry]
    named = [entry for entry in os.environ.get("PYTHONPATH", "").split(":") if entry]
    sys.path[:] = [""] + named + [entry for entry in _base_path if entry not in named]
    _add_user_site()
    if is_fork:
        _add_new_sites()
    if not is_fork:
        sys.path_importer_cache.clear()


def add_new_paths():
    """After an installation: what a cell has put on the path itself stays."""
    _add_user_site()
    _add_new_sites()


def _add_user_site():
    """Stands before the system's packages, as the site module puts it."""
    base = os.environ.get("PYTHONUSERBASE") or os.path.join(os.environ.get("HOME", "/root"), ".local")
    directory = os.path.join(base, "lib", "python%d.%d" % sys.version_info[:2], "site-packages")
    if os.environ.get("PYTHONNOUSERSITE") or directory in sys.path or not os.path.isdir(directory):
        return
    if sys.prefix != sys.base_prefix:
        return  # a virtual environment sees none
    import site

    known = set(sys.path)
    before = len(sys.path)
    site.addsitedir(directory, known)
    new = sys.path[before:]
    del sys.path[before:]
    at = min((sys.path.index(entry) for entry in site.getsitepackages() if entry in sys.path), default=before)
    sys.path[at:at] = new


def _add_new_sites():
    """Directories and .pth files that came after the zygote had looked."""
    import site

    for directory in _site_directories():
        stamp, seen = _site_times.get(directory, (None, set()))
        now = _stamp(directory)
        if now == stamp:
            continue
        if directory not in sys.path:
            site.addsitedir(directory, set(sys.path))
            continue
        for name in sorted(_pth_files(directory) - seen):
            site.addpackage(directory, name, set(sys.path))


def find_other_library():
    """Why this box needs an interpreter of its own, or None."""
    for name, (base, file, stamp) in _libraries.items():
        if _stamp(file) != stamp:
            return "this box has another %s" % name
    standard = os.path.dirname(os.__file__)
    for name, (base, _, _) in _libraries.items():
        for entry in sys.path if base in sys.path else ():
            if entry == base:
                break
            if not entry.startswith(standard) and not entry.endswith(".zip") and _has(entry or ".", name):
                return "this box has its own %s in %s" % (name, entry or os.getcwd())
    return None


def _has(directory, name):
    path = directory + "/" + name
    return os.access(path, os.F_OK) or os.access(path + ".py", os.F_OK)


def forget_places():
    """Directories that libraries looked up in the zygote's environment."""
    matplotlib = sys.modules.get("matplotlib")
    for name in ("get_configdir", "get_cachedir", "_get_config_or_cache_dir"):
        clear = getattr(getattr(matplotlib, name, None), "cache_clear", None)
        if clear is not None:
            clear()
    if matplotlib is not None and "MPLBACKEND" in os.environ:
        try:
            matplotlib.use(os.environ["MPLBACKEND"])
        except Exception:
            pass  # one that there is not: ours stays


def set_for_cell(variables):
    """Returns what the variables were."""
    before = {}
    for variable in variables.split(b"\0")[:-1]:
        name, _, value = variable.partition(b"=")
        if name:
            before[name] = os.environb.get(name)
            os.environb[name] = value
    return before


def set_back(before):
    for name, value in before.items():
        if value is None:
            os.environb.pop(name, None)
        else:
            os.environb[name] = value
