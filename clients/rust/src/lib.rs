//! A client of Longhaul.
