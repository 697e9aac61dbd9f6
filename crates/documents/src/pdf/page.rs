//! Pages: finds them, and runs the operators that show text.

use super::super::error::DocumentError;
use super::super::limits::MAX_TEXT;
use super::file::File;
use super::font::Font;
use super::layout::{Layout, Matrix};
use super::object::{Dict, Lexer, Object};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// The maximum number of pages.
pub(super) const MAX_PAGES: usize = 10_000;
/// The maximum number of kept operands; earlier ones are dropped.
const MAX_OPERANDS: usize = 64;
/// The maximum number of saved states.
const MAX_SAVED: usize = 256;
/// The maximum number of kept fonts that are not objects of their own.
const MAX_OWN_FONTS: usize = 64;
/// The maximum nesting of forms.
const MAX_FORMS: usize = 12;

/// A page.
pub(super) struct Page {
    number: u32,
    /// The nearest node above with resources.
    above: Option<u32>,
}

/// Returns the pages in their order. Pages that occur twice are one.
///
/// # Errors
/// Returns an error if a limit is exceeded.
pub(super) fn pages(file: &File<'_>) -> Result<Vec<Page>, DocumentError> {
    let (mut pages, mut known) = (Vec::new(), BTreeSet::new());
    let mut next = Vec::new();
    if let Object::Reference(root) = file.catalog()?.get("Pages") {
        known.insert(*root);
        next.push(Page { number: *root, above: None });
    }
    while let Some(Page { number, above }) = next.pop() {
        let Object::Dict(dict) = file.resolve(&Object::Reference(number))? else { continue };
        let above = match dict.get("Resources") {
            Object::Null => above,
            _ => Some(number),
        };
        match file.resolve(dict.get("Kids"))? {
            Object::List(kids) => {
                let from = next.len();
                for kid in kids.iter() {
                    if let Object::Reference(number) = kid
                        && known.insert(*number)
                    {
                        next.push(Page { number: *number, above });
                    }
                }
                next[from..].reverse();
            }
            _ if pages.len() == MAX_PAGES => {
                return Err(DocumentError::TooMany { what: "pages", limit: MAX_PAGES });
            }
            _ => pages.push(Page { number, above }),
        }
    }
    Ok(pages)
}

/// Returns all objects that are pages, in the order of their numbers, for files whose tree of pages is lost.
///
/// # Errors
/// Returns an error if a limit is exceeded.
pub(super) fn loose_pages(file: &File<'_>) -> Result<Vec<Page>, DocumentError> {
    let mut pages = Vec::new();
    for number in file.numbers() {
        let dict = file.dict(&Object::Reference(number))?;
        if dict.get("Type").name() == Some("Page") && pages.len() < MAX_PAGES {
            let above = match (dict.get("Resources"), dict.get("Parent")) {
                (Object::Null, Object::Reference(parent)) => Some(*parent),
                _ => Some(number),
            };
            pages.push(Page { number, above });
        }
    }
    Ok(pages)
}

/// Returns the last operand.
fn last(operands: &[Object]) -> &[Object] {
    &operands[operands.len().saturating_sub(1)..]
}

/// The state of the graphics that matters for text.
#[derive(Clone)]
struct State {
    matrix: Matrix,
    font: Option<Rc<Font>>,
    size: f64,
    letter_spacing: f64,
    word_spacing: f64,
    scale: f64,
    leading: f64,
    rise: f64,
}

/// Reads the text of pages.
pub(super) struct Reader<'f> {
    file: &'f File<'f>,
    fonts: BTreeMap<u32, Rc<Font>>,
    /// The last fonts that are not objects of their own.
    own_fonts: Vec<(Dict, Rc<Font>)>,
    /// The last node with resources, and these.
    inherited: Option<(u32, Dict)>,
    /// The numbers of the forms that are running.
    forms: Vec<u32>,
    layout: Layout,
    /// The number of glyphs without letters.
    pub(super) unknown: usize,
}

impl<'f> Reader<'f> {
    /// Starts without fonts.
    pub(super) fn new(file: &'f File<'f>) -> Self {
        let layout = Layout::default();
        Self {
            file,
            fonts: BTreeMap::new(),
            own_fonts: Vec::new(),
            inherited: None,
            forms: Vec::new(),
            layout,
            unknown: 0,
        }
    }

    /// Returns the text of a page.
    ///
    /// # Errors
    /// Returns an error if a limit is exceeded.
    pub(super) fn text(&mut self, page: &Page) -> Result<String, DocumentError> {
        let dict = self.file.dict(&Object::Reference(page.number))?;
        let resources = match (&self.inherited, page.above) {
            (_, None) => Dict::default(),
            (Some((number, known)), Some(above)) if *number == above => known.clone(),
            (_, Some(above)) => {
                let node = self.file.dict(&Object::Reference(above))?;
                let resources = self.file.dict(node.get("Resources"))?;
                self.inherited = Some((above, resources.clone()));
                resources
            }
        };
        let content = match self.file.resolve(dict.get("Contents"))? {
            Object::List(parts) => {
                let mut all = Vec::new();
                for part in parts.iter() {
                    all.extend(self.file.data(part)?.into_iter().flatten());
                    all.push(b'\n');
                }
                all
            }
            // The content is missing, or an image.
            one => self.file.data(&one)?.unwrap_or_else(Vec::new),
        };
        let state = State {
            matrix: Matrix::IDENTITY,
            font: None,
            size: 1.0,
            letter_spacing: 0.0,
            word_spacing: 0.0,
            scale: 1.0,
            leading: 0.0,
            rise: 0.0,
        };
        self.run(&content, &resources, state)?;
        Ok(std::mem::take(&mut self.layout).finish())
    }

    /// Runs a content stream.
    fn run(&mut self, content: &[u8], resources: &Dict, mut state: State) -> Result<(), DocumentError> {
        let fonts = self.file.dict(resources.get("Font"))?;
        let forms = self.file.dict(resources.get("XObject"))?;
        let (mut saved, mut unsaved) = (Vec::new(), 0_usize);
        let (mut line, mut text) = (Matrix::IDENTITY, Matrix::IDENTITY);
        let mut operands: Vec<Object> = Vec::new();
        let mut lexer = Lexer::of_content(content, self.file.work);
        while let Some(object) = DocumentError::skip_damage(lexer.next())? {
            let Object::Word(operator) = object else {
                if operands.len() == MAX_OPERANDS {
                    operands.remove(0);
                }
                operands.push(object);
                continue;
            };
            let numbers: Vec<f64> = operands.iter().filter_map(Object::number).collect();
            let number = numbers.last().copied().unwrap_or(0.0);
            match &*operator {
                "q" if saved.len() == MAX_SAVED => unsaved += 1,
                "q" => saved.push(state.clone()),
                "Q" if unsaved > 0 => unsaved -= 1,
                "Q" => state = saved.pop().unwrap_or(state),
                "cm" => {
                    if let Some(matrix) = Matrix::new(&numbers) {
                        state.matrix = matrix.then(state.matrix);
                    }
                }
                "BT" => (line, text) = (Matrix::IDENTITY, Matrix::IDENTITY),
                "Tf" => {
                    state.size = number;
                    if let Some(name) = operands.iter().find_map(Object::name) {
                        state.font = self.font(fonts.get(name))?;
                    }
                }
                "Tc" => state.letter_spacing = number,
                "Tw" => state.word_spacing = number,
                "Tz" => state.scale = number / 100.0,
                "TL" => state.leading = number,
                "Ts" => state.rise = number,
                "Tm" => {
                    if let Some(matrix) = Matrix::new(&numbers) {
                        (line, text) = (matrix, matrix);
                    }
                }
                "Td" | "TD" => {
                    if let [x, y] = numbers[..] {
                        line = Matrix::shift(x, y).then(line);
                        text = line;
                        if *operator == *"TD" {
                            state.leading = -y;
                        }
                    }
                }
                "T*" | "'" | "\"" => {
                    if let ("\"", [words, letters]) = (&*operator, &numbers[..]) {
                        (state.word_spacing, state.letter_spacing) = (*words, *letters);
                    }
                    line = Matrix::shift(0.0, -state.leading).then(line);
                    text = line;
                    self.show(last(&operands), &state, &mut text)?;
                }
                "Tj" => self.show(last(&operands), &state, &mut text)?,
                "TJ" => {
                    if let Some(Object::List(parts)) = operands.last() {
                        self.show(parts, &state, &mut text)?;
                    }
                }
                "Do" => {
                    if let Some(name) = operands.iter().find_map(Object::name) {
                        self.form(resources, forms.get(name), &state)?;
                    }
                }
                "ID" => lexer.skip_image()?,
                _ => {}
            }
            operands.clear();
        }
        Ok(())
    }

    /// Shows texts; numbers between them move the place.
    fn show(&mut self, parts: &[Object], state: &State, place: &mut Matrix) -> Result<(), DocumentError> {
        let Some(font) = &state.font else { return Ok(()) };
        let file = self.file;
        for part in parts {
            match part {
                Object::Number(distance) => {
                    let distance = -distance / 1_000.0 * state.size * state.scale;
                    *place = Matrix::shift(distance, 0.0).then(*place);
                }
                Object::Text(bytes) => {
                    let (mut letters, mut width, mut unknown) = (String::new(), 0.0, 0);
                    font.glyphs(file, bytes, &mut letters, |glyph| {
                        width += glyph.width * state.size + state.letter_spacing;
                        width += if glyph.is_space { state.word_spacing } else { 0.0 };
                        unknown += usize::from(!glyph.has_letters);
                    })?;
                    self.unknown = self.unknown.saturating_add(unknown);
                    width *= state.scale;
                    if !letters.is_empty() {
                        let matrix = place.then(state.matrix);
                        self.layout.add(&letters, matrix, width, state.size, state.rise);
                    }
                    if self.layout.len() > MAX_TEXT {
                        return Err(DocumentError::TooLarge { what: "text", limit_mb: MAX_TEXT >> 20 });
                    }
                    *place = Matrix::shift(width, 0.0).then(*place);
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn font(&mut self, object: &Object) -> Result<Option<Rc<Font>>, DocumentError> {
        if let Object::Reference(number) = object
            && let Some(known) = self.fonts.get(number)
        {
            return Ok(Some(known.clone()));
        }
        let Object::Dict(dict) = self.file.resolve(object)? else { return Ok(None) };
        if let Some((_, known)) = self.own_fonts.iter().find(|(own, _)| own.is_same(&dict)) {
            return Ok(Some(known.clone()));
        }
        let font = Rc::new(Font::read(self.file, &dict)?);
        if let Object::Reference(number) = object {
            self.fonts.insert(*number, font.clone());
        } else {
            if self.own_fonts.len() == MAX_OWN_FONTS {
                self.own_fonts.remove(0);
            }
            self.own_fonts.push((dict, font.clone()));
        }
        Ok(Some(font))
    }

    /// Runs a form, which is a content stream with resources of its own. Images are skipped.
    fn form(&mut self, resources: &Dict, object: &Object, state: &State) -> Result<(), DocumentError> {
        let Object::Reference(number) = object else { return Ok(()) };
        let number = *number;
        if self.forms.len() == MAX_FORMS || self.forms.contains(&number) {
            return Ok(());
        }
        let Object::Stream(stream) = self.file.resolve(object)? else { return Ok(()) };
        if stream.dict.get("Subtype").name() != Some("Form") {
            return Ok(());
        }
        let Some(content) = self.file.unpacked(&stream)? else { return Ok(()) };
        let mut state = state.clone();
        if let Object::List(items) = self.file.resolve(stream.dict.get("Matrix"))? {
            let numbers: Vec<f64> = items.iter().filter_map(Object::number).collect();
            state.matrix = Matrix::new(&numbers).unwrap_or(Matrix::IDENTITY).then(state.matrix);
        }
        self.forms.push(number);
        let ran = match stream.dict.get("Resources") {
            Object::Null => self.run(&content, resources, state),
            own => {
                let own = self.file.dict(own)?;
                self.run(&content, &own, state)
            }
        };
        self.forms.pop();
        ran
    }
}
