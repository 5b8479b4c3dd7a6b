"""``python -m bayespatch.cli``, where the program ``bayespatch`` is not on the path."""

from bayespatch.cli import main

if __name__ == "__main__":
    main()
