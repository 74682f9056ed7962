//! IP routing.
