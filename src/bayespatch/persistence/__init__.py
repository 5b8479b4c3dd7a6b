"""Files for models and checkpoints, which are written atomically and read without executing anything.

Four modules do not depend on models and are also used by retrieval and sampling: ``atomic`` replaces files,
``file_format`` defines files with checksums, ``checkpoint_folder`` manages a folder of these files with a single
writing process, and ``mapped_arrays`` reads arrays from files on access. The other modules are for model files:
``json_codec`` converts parameters to JSON, ``arrays`` specifies each array, ``contents`` defines what a file may
contain without the past cases, ``second_opinion`` and ``validation`` check a file before it is loaded, ``registry``
lists the loadable classes, and ``model_file`` has `save` and `load`.
"""
