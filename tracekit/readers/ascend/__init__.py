"""Files of the profilers for Ascend NPUs: the tables and databases of msprof and torch_npu."""
