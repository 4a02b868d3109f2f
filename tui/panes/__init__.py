"""The panes, one a file. A pane shows its side of a ``Focus`` and asks for another by a message."""
