//! The layout of a page: the positions of its texts, and the ends of lines, words and columns that follow from
//! them.

/// The distance from the last text that ends a line, in heights of the text.
const LINE: f64 = 0.5;
/// The distance from the last text that ends a paragraph, in heights of the text.
const PARAGRAPH: f64 = 1.8;
/// The distance from the last text that is a space, in heights of the text.
const SPACE: f64 = 0.15;
/// The distance from the last text that separates columns, in heights of the text.
const COLUMN: f64 = 2.0;
/// The distance to a text with the same letters that only makes it bolder, in heights of the text.
const SAME: f64 = 0.15;

/// A transformation of the plane.
#[derive(Debug, Clone, Copy)]
pub(super) struct Matrix([f64; 6]);

impl Matrix {
    /// The transformation that changes nothing.
    pub(super) const IDENTITY: Self = Self([1.0, 0.0, 0.0, 1.0, 0.0, 0.0]);

    /// Reads six numbers.
    pub(super) fn new(numbers: &[f64]) -> Option<Self> {
        Some(Self(numbers.try_into().ok()?))
    }

    /// Returns a translation.
    pub(super) fn shift(x: f64, y: f64) -> Self {
        Self([1.0, 0.0, 0.0, 1.0, x, y])
    }

    /// Applies this transformation, then another one.
    pub(super) fn then(self, other: Self) -> Self {
        let [a, b, c, d, e, f] = self.0;
        let [oa, ob, oc, od, oe, of] = other.0;
        Self([
            a * oa + b * oc,
            a * ob + b * od,
            c * oa + d * oc,
            c * ob + d * od,
            e * oa + f * oc + oe,
            e * ob + f * od + of,
        ])
    }

    /// Returns the place of a point.
    fn point(self, x: f64, y: f64) -> (f64, f64) {
        let [a, b, c, d, e, f] = self.0;
        (a * x + c * y + e, b * x + d * y + f)
    }
}

/// The end of the last text.
struct Last {
    start: (f64, f64),
    end: (f64, f64),
    height: f64,
    text: String,
}

/// The text of a page.
#[derive(Default)]
pub(super) struct Layout {
    text: String,
    last: Option<Last>,
}

impl Layout {
    /// Adds a text. `matrix` leads from its units to the page; it begins at `(0, rise)`, is `width` wide and `size`
    /// high.
    pub(super) fn add(&mut self, text: &str, matrix: Matrix, width: f64, size: f64, rise: f64) {
        let (start, end) = (matrix.point(0.0, rise), matrix.point(width, rise));
        let top = matrix.point(0.0, rise + size);
        let height = (top.0 - start.0).hypot(top.1 - start.1);
        if let Some(last) = &self.last {
            let line = (matrix.0[0], matrix.0[1]);
            let length = line.0.hypot(line.1);
            let (x, y) = (start.0 - last.end.0, start.1 - last.end.1);
            let along = (x * line.0 + y * line.1) / length;
            let across = ((x * line.1 - y * line.0) / length).abs();
            let high = height.max(last.height);
            let again = (start.0 - last.start.0).hypot(start.1 - last.start.1);
            if again < SAME * high && last.text == text && !text.trim().is_empty() {
                return;
            }
            if across > PARAGRAPH * high {
                self.text.push_str("\n\n");
            } else if across > LINE * high {
                self.text.push('\n');
            } else if along > COLUMN * high {
                self.separate('\t', text);
            } else if along > SPACE * high || along < -high {
                self.separate(' ', text);
            }
        }
        for letter in text.chars() {
            match letter {
                'ﬀ' => self.text.push_str("ff"),
                'ﬁ' => self.text.push_str("fi"),
                'ﬂ' => self.text.push_str("fl"),
                'ﬃ' => self.text.push_str("ffi"),
                'ﬄ' => self.text.push_str("ffl"),
                '\u{a0}' => self.text.push(' '),
                '\u{ad}' => self.text.push('-'),
                letter if letter.is_control() => {}
                letter => self.text.push(letter),
            }
        }
        self.last = Some(Last { start, end, height, text: text.to_owned() });
    }

    fn separate(&mut self, with: char, next: &str) {
        if self.text.ends_with(' ') && with == '\t' {
            self.text.pop();
        }
        if !self.text.ends_with(char::is_whitespace) && !next.starts_with(' ') {
            self.text.push(with);
        }
    }

    /// Returns the length of the text so far.
    pub(super) fn len(&self) -> usize {
        self.text.len()
    }

    /// Returns the text, without spaces at the ends of lines.
    pub(super) fn finish(self) -> String {
        let lines: Vec<&str> = self.text.lines().map(str::trim_end).collect();
        lines.join("\n").trim_matches('\n').to_owned()
    }
}
