//! The captured output of a program: read to the end, stored up to a limit.

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// The maximum number of stored bytes.
pub(super) const MAX: usize = 102_400;

/// One output of a program.
#[derive(Debug, Default)]
pub(super) struct Capture(Mutex<Output>);

#[derive(Debug, Default)]
struct Output {
    kept: Vec<u8>,
    left_out: u64,
}

impl Capture {
    /// Reads the output until it is closed. Bytes beyond the limit are discarded, so that the program is not
    /// blocked.
    pub(super) async fn read(&self, output: Option<impl AsyncRead + Unpin>) {
        let Some(mut output) = output else { return };
        let mut bytes = vec![0; 16 << 10];
        while let Ok(count @ 1..) = output.read(&mut bytes).await {
            self.0.lock().take(&bytes[..count]);
        }
    }

    /// Returns the text, with a note if a part was omitted, and `true` if so.
    pub(super) fn finish(&self) -> (String, bool) {
        let Output { mut kept, left_out } = std::mem::take(&mut *self.0.lock());
        if left_out == 0 {
            return (String::from_utf8_lossy(&kept).into_owned(), false);
        }
        let whole = until_last_whole_letter(&kept);
        let left_out = left_out + (kept.len() - whole) as u64;
        kept.truncate(whole);
        (format!("{}\n… {left_out} more bytes were omitted", String::from_utf8_lossy(&kept)), true)
    }
}

impl Output {
    fn take(&mut self, bytes: &[u8]) {
        let fit = bytes.len().min(MAX - self.kept.len());
        self.kept.extend_from_slice(&bytes[..fit]);
        self.left_out += (bytes.len() - fit) as u64;
    }
}

/// Returns the length without an incomplete character at the end.
fn until_last_whole_letter(bytes: &[u8]) -> usize {
    let begin = bytes.len().saturating_sub(4);
    let is_begin = |byte: &u8| byte & 0b1100_0000 != 0b1000_0000;
    let Some(last) = bytes[begin..].iter().rposition(is_begin).map(|at| begin + at) else {
        return bytes.len();
    };
    match std::str::from_utf8(&bytes[last..]) {
        Err(error) if error.error_len().is_none() => last,
        _ => bytes.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capture(bytes: &[u8]) -> (String, bool) {
        let capture = Capture::default();
        capture.0.lock().take(bytes);
        capture.finish()
    }

    #[test]
    fn truncation_keeps_characters_whole_and_is_reported() {
        assert_eq!(capture(b"a\xffb"), ("a\u{fffd}b".into(), false));
        let (text, cut) = capture("ä".repeat(MAX / 2).as_bytes());
        assert!(!cut && text.len() == MAX);
        let text = format!("x{}", "ä".repeat(MAX / 2));
        let (text, cut) = capture(text.as_bytes());
        assert!(cut && !text.contains('\u{fffd}'));
        assert!(text.ends_with("ä\n… 2 more bytes were omitted"), "{}", &text[text.len() - 60..]);
    }
}
