//! Problems of scripts, drawn for terminals.

use miette::{
    Diagnostic, GraphicalReportHandler, GraphicalTheme, LabeledSpan, MietteError, MietteSpanContents,
    SourceCode, SourceSpan, SpanContents,
};
use std::fmt;
use valvehouse_script::{Code, Problem, Severity};

/// The place, the message, the line with what is meant underlined, the help; None where it cannot be drawn.
pub(super) fn drawn(problem: &Problem) -> Option<String> {
    let mut drawn = String::new();
    let handler = GraphicalReportHandler::new_themed(GraphicalTheme::unicode());
    handler.render_report(&mut drawn, &Drawing::of(problem)).ok()?;
    Some(drawn.trim_matches('\n').to_owned())
}

/// A problem in the form that miette draws.
#[derive(Debug)]
struct Drawing {
    code: Code,
    message: String,
    help: Option<String>,
    severity: Severity,
    line: Option<Line>,
}

/// The one line of a file that is drawn.
#[derive(Debug)]
struct Line {
    file: String,
    /// From 1, as people count.
    number: usize,
    column: usize,
    text: String,
    /// The underlined range, in bytes.
    word: SourceSpan,
}

impl Drawing {
    fn of(problem: &Problem) -> Self {
        let line = problem.line.zip(problem.column).map(|(number, column)| {
            let bytes = |letters: usize, from: &str| -> usize {
                from.chars().take(letters).map(char::len_utf8).sum()
            };
            let start = bytes(column - 1, &problem.excerpt);
            let length = bytes(problem.width(), &problem.excerpt[start..]);
            Line {
                file: problem.path.display().to_string(),
                number,
                column,
                text: problem.excerpt.clone(),
                word: (start, length).into(),
            }
        });
        let message = match &line {
            Some(_) => problem.message.clone(),
            None => format!("{}: {}", problem.place(), problem.message),
        };
        Self { code: problem.code, message, help: problem.help.clone(), severity: problem.severity, line }
    }
}

impl SourceCode for Line {
    fn read_span<'a>(
        &'a self,
        _: &SourceSpan,
        lines_before: usize,
        _: usize,
    ) -> Result<Box<dyn SpanContents<'a> + 'a>, MietteError> {
        // Asked for no lines around, miette wants to know the place; else what to draw.
        let column = if lines_before == 0 { self.column - 1 } else { 0 };
        let (whole, line) = ((0, self.text.len()).into(), self.number - 1);
        let text = self.text.as_bytes();
        Ok(Box::new(MietteSpanContents::new_named(self.file.clone(), text, whole, line, column, 1)))
    }
}

impl fmt::Display for Drawing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Drawing {}

impl Diagnostic for Drawing {
    fn code<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        Some(Box::new(self.code))
    }

    fn severity(&self) -> Option<miette::Severity> {
        Some(match self.severity {
            Severity::Error => miette::Severity::Error,
            Severity::Warning => miette::Severity::Warning,
        })
    }

    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.help.as_ref().map(|help| Box::new(help) as Box<dyn fmt::Display>)
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.line.as_ref().map(|line| line as &dyn SourceCode)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let labels = self.line.iter().map(|line| LabeledSpan::underline(line.word));
        Some(Box::new(labels))
    }
}
