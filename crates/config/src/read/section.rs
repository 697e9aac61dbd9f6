//! The keys that are read alike in several tables.

use crate::reader::Reader;
use crate::secret::SecretSource;
use std::path::Path;

pub(super) const NO_DIGEST: &str =
    "must have 64 hexadecimal digits after `sha256:`; create them with `valvehouse key`";

/// A key that opens endpoints: itself, or its digest.
pub(super) fn key(it: &mut Reader<'_>, project: &Path) -> Option<SecretSource> {
    let key = secret(it, "key", project)?;
    if key.is_no_digest() {
        it.wrong("key", NO_DIGEST);
        return None;
    }
    Some(key)
}

pub(super) fn secret(it: &mut Reader<'_>, key: &'static str, project: &Path) -> Option<SecretSource> {
    let source = match SecretSource::parse(&it.text(key)?, project) {
        Ok(source) => source,
        Err(misspelled) => {
            it.wrong(key, &misspelled.to_string());
            return None;
        }
    };
    if source.is_blank() {
        it.wrong(key, "is empty: write \"env:NAME\", \"file:PATH\" or the key itself, or remove it");
        return None;
    }
    Some(source)
}
