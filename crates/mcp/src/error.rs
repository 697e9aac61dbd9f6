//! The error of the package.

use std::io;
use std::path::PathBuf;
use valvehouse_core::error::BoxError;

/// An error of an MCP server, of its approved tools, or of an MCP client.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum McpError {
    /// The server, tool or approval is unknown.
    #[error("{0}")]
    Unknown(String),
    /// The tool or its approval differs from the one that was shown.
    #[error("{0}")]
    Changed(String),
    /// The server is not connected.
    #[error("{0}")]
    Away(String),
    /// The file of approvals cannot be read.
    #[error("{0}; correct the file, or delete it and approve the tools again")]
    Unreadable(#[source] io::Error),
    /// The file of approvals cannot be written.
    #[error("cannot write {}: {error}; allow this process to write there, and to .valvehouse next to it", file.display())]
    Unwritable {
        /// Its path.
        file: PathBuf,
        /// The reason.
        #[source]
        error: io::Error,
    },
    /// A user cannot be logged in or out.
    #[error(transparent)]
    Login(BoxError),
    /// The session with a client over standard input and output failed.
    #[error("{doing}: {error}")]
    Session {
        /// The failed operation.
        doing: &'static str,
        /// The reason.
        #[source]
        error: BoxError,
    },
}
