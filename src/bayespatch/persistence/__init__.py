"""Files: models and checkpoints, written whole or not at all, and read without executing anything.

``atomic`` replaces files, ``file_format`` is a file under checksums, ``checkpoint_folder`` a folder of such files that
one process writes, ``mapped_arrays`` a file of arrays that are read when they are used. These four do not depend on
models; retrieval and sampling use them. A model file is made of the rest: ``json_codec`` turns parameters into JSON,
``arrays`` says what each array must be, ``contents`` what a file may hold without the past cases, ``second_opinion``
and ``validation`` what must hold before a file is loaded, ``registry`` which classes can be, and ``model_file`` has
`save` and `load`.
"""
