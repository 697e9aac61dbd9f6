//! A host with the fixtures of the conformance suite, which are scripts.

use crate::host::TestHost;
use std::path::{Path, PathBuf};

pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mcp/fixtures")
}

/// Starts a host with everything that the suite requests.
pub(crate) async fn host() -> TestHost {
    let mut setup = TestHost::new();
    for entry in std::fs::read_dir(folder().join("tools")).unwrap() {
        let path = entry.unwrap().path();
        let id = path.file_stem().unwrap().to_str().unwrap().to_owned();
        setup = setup.tool(&id, std::fs::read(&path).unwrap());
    }
    setup.start().await
}
