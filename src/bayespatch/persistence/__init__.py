"""Files for models and checkpoints, written atomically and read without executing anything.

``atomic`` replaces files, ``file_format`` defines files with checksums, ``checkpoint_folder`` a folder of these files
written by one process, and ``mapped_arrays`` files of arrays that are read on access. These four do not depend on
models; retrieval and sampling use them. A model file is made of the rest: ``json_codec`` converts parameters to JSON,
``arrays`` specifies each array, ``contents`` defines what a file may contain without the past cases, ``second_opinion``
and ``validation`` check a file before it is loaded, ``registry`` lists the loadable classes, and ``model_file`` has
`save` and `load`.
"""
