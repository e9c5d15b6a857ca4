"""Text, tokens, embeddings, light model, credentials, settings, tasks and errors, which every room uses."""
