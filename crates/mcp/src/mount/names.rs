//! Names of mounted tools: `server_tool`, in the 64 letters that every model's service takes.

use sha2::{Digest, Sha256};
use valvehouse_core::text::hex;
use valvehouse_core::tool::is_name;

/// The longest name.
const MAX: usize = 64;
/// The letters of the hash in a name that had to be changed.
const HASH: usize = 8;

/// The name of a tool. One that is too long or has other letters is cut and ends with a hash of the whole: it is the same
/// in every process, and of two different tools never the same by accident.
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
    fn a_name_fits_and_two_tools_have_two() {
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
