//! DataFusion's own SQL tests, with Fermion in the place of other storage.
//!
//! The package has no code of its own: see the integration test `conformance`, which runs every file of the suite that ships with the crate
//! `datafusion-sqllogictest` up to three times and compares what comes out.
