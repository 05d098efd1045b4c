"""The one exception for wrong input."""


class InputError(Exception):
    """Something that came from outside is wrong: a file, a record, a setting.

    The message is one line that names the file, the record (qid) where there is one, and the remedy. The entry
    points print it without a traceback and exit with status 1. Anything else that is raised is a fault of ours.
    """
