"""The built-in loop for models: screenshot, model, action, through the flight recorder."""
