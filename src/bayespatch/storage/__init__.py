"""Saving and loading a fitted estimator, without executing code.

The file itself is ``bayespatch.container``; ``plain`` turns parameters into JSON, ``arrays`` says what each array must
be, ``kept`` what a file may hold without the past cases, ``believe`` checks it all, ``model`` is a file, or two.

>>> import os, tempfile, bayespatch
>>> clf = bayespatch.PatchworkClassifier(draws=50, warmup=50, random_state=0).fit([[0], [1]] * 9, [0, 1] * 9)
>>> with tempfile.TemporaryDirectory() as folder:
...     path = os.path.join(folder, "model.bpatch")
...     clf.save(path)
...     bayespatch.load(path).predict([[1]])
array([1])
"""

from bayespatch.files import StorageError
from bayespatch.storage.model import LeftOut, Storable, load, read_manifest, save

__all__ = ["LeftOut", "Storable", "StorageError", "load", "read_manifest", "save"]
