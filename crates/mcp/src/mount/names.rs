//! The names of mounted tools: `server_tool`, at most 64 characters that every provider accepts.

use sha2::{Digest, Sha256};
use valvehouse_core::text::hex;
use valvehouse_core::tool::is_name;

/// The maximum length of a name.
const MAX: usize = 64;
/// The length of the hash in a shortened name.
const HASH: usize = 8;

/// Returns the name of a tool. A name that is too long or has other characters is shortened, and ends with a
/// hash of the full name: equal in every process, and different for different tools.
pub(super) fn name(server: &str, tool: &str) -> String {
    let plain = format!("{server}_{tool}");
    if is_name(&plain) {
        return plain;
    }
    let hash = hex(&Sha256::digest(format!("{server}\0{tool}")));
    let fits = |letter: char| if letter.is_ascii_alphanumeric() || letter == '-' { letter } else { '_' };
    let cut: String = plain.chars().map(fits).take(MAX - HASH - 1).collect();
    format!("{cut}_{}", &hash[..HASH])
}

#[cfg(test)]
mod tests {
    use super::name;

    #[test]
    fn mounted_tool_names_are_valid_and_unique() {
        assert_eq!(name("git", "search"), "git_search");
        let long = "x".repeat(100);
        assert_eq!(name("git", &long).len(), 64);
        assert_ne!(name("git", &long), name("git", &format!("{long}y")));
        let dotted = name("git", "a.b");
        assert!(dotted.starts_with("git_a_b_") && dotted != name("git", "a_b"), "{dotted}");
        assert_eq!(name("git", "a.b"), dotted);
        assert!(valvehouse_core::tool::is_name(&name("git", "größe 🦀")));
    }
}
