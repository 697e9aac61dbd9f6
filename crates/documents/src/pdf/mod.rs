//! Extracts the text of PDF files: of their fonts' letters, in the order in which pages show them.
//!
//! Own code instead of a crate: crates for PDF files unpack streams without a limit, and cannot be stopped. A file of
//! 2 MB, one page of packed spaces, took 2.1 GB with `hayro-syntax` 0.9 and 4.2 GB with `pdf-extract` 0.12, which also
//! panics for fonts without an encoding and brings 18 packages. Here every token and every unpacked byte counts
//! ([`work`]), all recursion has a limit, and damage ends an object instead of the file.

mod cmap;
mod encoding;
mod file;
mod filter;
mod font;
mod layout;
mod object;
mod page;
mod ranges;
#[cfg(test)]
mod tests;
mod text;
mod work;

pub(super) use text::{is_pdf, text};
