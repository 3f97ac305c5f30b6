"""The HTTP surface: sessions, configuration, health and the page. Signalling only; never media."""
