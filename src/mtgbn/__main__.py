"""`python -m mtgbn` is the command `mtgbn`, where its folder is not on the search path of the shell."""

from mtgbn.cli import main

if __name__ == "__main__":
    main()
