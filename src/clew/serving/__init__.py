"""What all servers of clew share: how they listen, who may call them, what they refuse."""
