"""What runs in the tasks, in the Python workers of the executors."""
