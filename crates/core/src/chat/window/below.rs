//! The arguments of a call through a window: texts in them can be JSON themselves, with escapes that hide letters.

use super::visitor::WindowVisitor;
use crate::chat::escapes;
use compact_str::CompactString;

/// Shows a visitor the arguments of a call with all escapes resolved as well. They are sent as they are unless the
/// visitor changes them.
pub(super) struct Below<'a, L>(pub(super) &'a mut L);

impl<L: WindowVisitor> WindowVisitor for Below<'_, L> {
    type Error = L::Error;

    fn changed(&mut self, text: &str) -> Result<CompactString, L::Error> {
        let own = self.0.changed(text)?;
        if !escapes::has_below(text) {
            return Ok(own);
        }
        let below = escapes::resolved_below(text);
        let changed = self.0.changed(&below)?;
        Ok(if changed == below { own } else { changed })
    }

    fn unfinished(&mut self, text: &str) -> Result<usize, L::Error> {
        let own = self.0.unfinished(text)?;
        if !escapes::has_below(text) {
            return Ok(own);
        }
        let mut length = escapes::begun_below(text);
        let parts: Vec<(usize, CompactString)> = escapes::parts_below(&text[..text.len() - length]).collect();
        let below: String = parts.iter().map(|(_, part)| part.as_str()).collect();
        let mut unfinished = self.0.unfinished(&below)?;
        for (raw, part) in parts.iter().rev() {
            if unfinished == 0 {
                break;
            }
            length += raw;
            unfinished = unfinished.saturating_sub(part.len());
        }
        Ok(own.max(length))
    }

    fn visits(&mut self, count: usize) {
        self.0.visits(count);
    }
}
