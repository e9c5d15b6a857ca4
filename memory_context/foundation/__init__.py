"""What all rooms stand on: text, tokens, embeddings, models, credentials, settings, tasks, errors."""
