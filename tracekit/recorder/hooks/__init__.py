"""Parts that the watches of torch and Paddle share: replaced attributes, data loaders, steps."""
