//! The text form of any value, with a maximum length.

use rhai::Dynamic;
use std::fmt::{self, Write};

/// Returns the text of a value, truncated to this number of bytes; writing stops there.
pub fn shortened_text(value: &Dynamic, max_bytes: usize) -> String {
    let mut text = BoundedText { text: String::new(), max_bytes };
    // An error only means that the limit is reached.
    let _ = write!(text, "{value}");
    text.text
}

struct BoundedText {
    text: String,
    max_bytes: usize,
}

impl Write for BoundedText {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        let room = self.max_bytes - self.text.len();
        if part.len() <= room {
            self.text.push_str(part);
            return Ok(());
        }
        self.text.push_str(&part[..part.floor_char_boundary(room)]);
        self.max_bytes = self.text.len();
        Err(fmt::Error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shortened_text_stops_at_its_limit() {
        assert_eq!(shortened_text(&"äöü".into(), 3), "ä");
        assert_eq!(shortened_text(&vec![Dynamic::from(1_i64), "x".into()].into(), 100), r#"[1, "x"]"#);
        let text = Dynamic::from("x".repeat(1 << 20));
        let many = Dynamic::from(vec![text; 100_000]);
        assert_eq!(shortened_text(&many, 1_000).len(), 1_000);
    }
}
