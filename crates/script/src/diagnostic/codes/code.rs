//! The kind of a problem of a script.

/// The kind of a problem. Its code, such as `V101`, never changes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Code(pub(crate) &'static Page);

/// The page of a code, the documentation of its constant: the code and the title in the first line.
#[derive(PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Page {
    pub(crate) text: &'static str,
    pub(crate) name: &'static str,
}

/// Declares codes by their pages.
macro_rules! code_constants {
    ($($(#[doc = $line:literal])+ $name:ident)+) => {
        #[expect(non_upper_case_globals, reason = "reports name a code after its constant")]
        impl crate::diagnostic::Code {
            $(
                $(#[doc = $line])+
                pub const $name: Self = Self(&crate::diagnostic::Page {
                    text: concat!($($line, "\n"),+),
                    name: stringify!($name),
                });
            )+
        }
    };
}
pub(crate) use code_constants;

/// Declares codes by their pages, and lists them as `CODES`.
macro_rules! codes {
    ($($(#[doc = $line:literal])+ $name:ident;)+) => {
        crate::diagnostic::code_constants! { $($(#[doc = $line])+ $name)+ }

        pub(crate) const CODES: &[crate::diagnostic::Code] = &[$(crate::diagnostic::Code::$name),+];
    };
}
pub(crate) use codes;

impl Code {
    /// Returns the code, such as `V101`.
    pub fn id(self) -> &'static str {
        self.heading().0
    }

    /// Returns its title.
    pub fn title(self) -> &'static str {
        self.heading().1
    }

    fn heading(self) -> (&'static str, &'static str) {
        let heading = self.0.text.lines().next().and_then(|line| line.trim_start().split_once(' '));
        heading.unwrap_or((self.0.name, ""))
    }

    /// Returns its page in Markdown: the problem, why it is wrong, an example and the correction.
    pub fn page(self) -> String {
        // A line of a doc comment begins with a space.
        let lines = self.0.text.lines().skip(1).map(|line| line.strip_prefix(' ').unwrap_or(line));
        lines.collect::<Vec<_>>().join("\n").trim().to_owned()
    }

    /// Returns the first paragraph of its page.
    pub fn summary(self) -> String {
        let page = self.page();
        let paragraph = page.split("\n\n").next().unwrap_or(&page);
        paragraph.split_whitespace().collect::<Vec<_>>().join(" ")
    }
}

/// Writes its id.
impl std::fmt::Display for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.id())
    }
}

/// Writes the name of its constant.
impl std::fmt::Debug for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0.name)
    }
}
