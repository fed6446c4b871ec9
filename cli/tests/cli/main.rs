//! The `fermion` program from the outside: arguments in, output, files and exit codes out.

#[cfg(test)]
mod common;
#[cfg(test)]
mod convert;
#[cfg(test)]
mod demo;
#[cfg(test)]
mod inspect;
#[cfg(test)]
mod readme;
#[cfg(test)]
mod shell;
