"""Files shown in a browser: a page of ours, or a trace in Perfetto, from a server of 127.0.0.1 that ends by itself."""
