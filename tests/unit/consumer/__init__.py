"""Rules of the application thread's side: settings, deserializers, delivery."""
