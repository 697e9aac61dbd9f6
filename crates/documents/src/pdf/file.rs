//! The file: where its objects are, and the content of its streams.

use super::super::error::DocumentError;
use super::filter::{Prediction, unpack};
use super::object::{Dict, Lexer, Object, Stream};
use super::work::Work;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// The maximum number of objects.
const MAX_OBJECTS: usize = 500_000;
/// The maximum number of tables of objects, one for each change of the file.
const MAX_TABLES: usize = 1_000;
/// The maximum number of filters of a stream.
const MAX_FILTERS: usize = 8;
/// The maximum number of objects that are read to read one.
const MAX_NESTING: usize = 12;
/// The maximum number of references that lead to an object.
const MAX_HOPS: usize = 16;
/// The number of last bytes that hold the place of the table.
const TAIL: usize = 2_048;

/// The place of an object.
#[derive(Debug, Clone, Copy)]
enum Place {
    Deleted,
    At(usize),
    /// In a stream of objects.
    Packed {
        stream: u32,
        index: usize,
    },
}

/// The objects of a stream of objects.
struct PackedObjects {
    bytes: Vec<u8>,
    /// The number and the place of each.
    objects: Vec<(u32, usize)>,
}

/// A file.
pub(super) struct File<'a> {
    bytes: &'a [u8],
    pub(super) work: &'a Work<'a>,
    places: BTreeMap<u32, Place>,
    trailer: Dict,
    packed: RefCell<BTreeMap<u32, Option<Rc<PackedObjects>>>>,
    packed_count: Cell<usize>,
    nesting: Cell<usize>,
}

impl<'a> File<'a> {
    /// Reads the table of objects that the end of the file names.
    ///
    /// # Errors
    /// Returns an error if the file is encrypted or a limit is exceeded. A damaged table has no objects.
    pub(super) fn open(bytes: &'a [u8], work: &'a Work<'a>) -> Result<Self, DocumentError> {
        let mut file = Self {
            bytes,
            work,
            places: BTreeMap::new(),
            trailer: Dict::default(),
            packed: RefCell::default(),
            packed_count: Cell::new(0),
            nesting: Cell::new(0),
        };
        let tail = bytes.len().saturating_sub(TAIL);
        if let Some(at) = memchr::memmem::rfind(&bytes[tail..], b"startxref") {
            let mut lexer = Lexer::new(bytes, tail + at + b"startxref".len(), work);
            if let Some(at) = lexer.next()?.as_ref().and_then(Object::index) {
                file.read_tables(at)?;
            }
        }
        file.check_encryption()?;
        Ok(file)
    }

    /// Finds the objects by searching the whole file, for files whose table is damaged.
    ///
    /// # Errors
    /// Returns an error if the file is encrypted or a limit is exceeded.
    pub(super) fn search(&mut self) -> Result<(), DocumentError> {
        self.places.clear();
        self.packed.borrow_mut().clear();
        self.work.bytes(self.bytes.len())?;
        for at in memchr::memmem::find_iter(self.bytes, b"obj") {
            if let Some((number, start)) = self.header_before(at) {
                self.place(number, Place::At(start), true)?;
            }
        }
        for at in memchr::memmem::find_iter(self.bytes, b"trailer") {
            let mut lexer = Lexer::new(self.bytes, at + b"trailer".len(), self.work);
            if let Some(Object::Dict(dict)) = DocumentError::skip_damage(lexer.next())? {
                self.trailer.merge(&dict, false);
            }
        }
        for number in self.numbers() {
            let Object::Stream(stream) = self.get(number)? else { continue };
            match stream.dict.get("Type").name() {
                Some("ObjStm") => {
                    let Some(packed) = self.packed(number)? else { continue };
                    for (index, (own, _)) in packed.objects.iter().enumerate() {
                        self.place(*own, Place::Packed { stream: number, index }, false)?;
                    }
                }
                Some("XRef") => self.trailer.merge(&stream.dict, true),
                _ => {}
            }
        }
        if !matches!(self.resolve(self.trailer.get("Root"))?, Object::Dict(_)) {
            for number in self.numbers() {
                if self.dict(&Object::Reference(number))?.get("Type").name() == Some("Catalog") {
                    self.trailer.set("Root", Object::Reference(number));
                }
            }
        }
        self.check_encryption()
    }

    /// Returns the numbers of all objects.
    pub(super) fn numbers(&self) -> Vec<u32> {
        self.places.keys().copied().collect()
    }

    /// Returns the number of the object whose header `1 0 obj` ends here, and the place of the header.
    fn header_before(&self, at: usize) -> Option<(u32, usize)> {
        let skip = |end: usize, is_part: &dyn Fn(&u8) -> bool| {
            end - self.bytes[..end].iter().rev().take(10).take_while(|byte| is_part(byte)).count()
        };
        let generation = skip(at, &u8::is_ascii_whitespace);
        let before = skip(generation, &u8::is_ascii_digit);
        let end = skip(before, &u8::is_ascii_whitespace);
        let start = skip(end, &u8::is_ascii_digit);
        let is_header = start < end && end < before && before < generation && generation < at;
        let number = std::str::from_utf8(self.bytes.get(start..end)?).ok()?.parse().ok()?;
        is_header.then_some((number, start))
    }

    fn check_encryption(&self) -> Result<(), DocumentError> {
        match self.trailer.get("Encrypt") {
            Object::Null => Ok(()),
            _ => Err(DocumentError::Encrypted),
        }
    }

    fn place(&mut self, number: u32, place: Place, replaces: bool) -> Result<(), DocumentError> {
        if self.places.len() >= MAX_OBJECTS {
            return Err(DocumentError::TooMany { what: "objects", limit: MAX_OBJECTS });
        }
        match replaces {
            true => drop(self.places.insert(number, place)),
            false => drop(self.places.entry(number).or_insert(place)),
        }
        Ok(())
    }

    /// Reads the last table and those that it continues. Places of later tables hide those of earlier ones.
    fn read_tables(&mut self, at: usize) -> Result<(), DocumentError> {
        let (mut next, mut known) = (vec![at], BTreeSet::new());
        while let Some(at) = next.pop() {
            if !known.insert(at) || known.len() > MAX_TABLES {
                continue;
            }
            let read = self.read_table_at(at);
            let Some(dict) = DocumentError::skip_damage(read)? else { continue };
            next.extend(["Prev", "XRefStm"].iter().filter_map(|key| dict.get(key).index()));
            self.trailer.merge(&dict, true);
        }
        Ok(())
    }

    fn read_table_at(&mut self, at: usize) -> Result<Option<Dict>, DocumentError> {
        let mut lexer = Lexer::new(self.bytes, at, self.work);
        match lexer.next()? {
            Some(word) if word.is_word("xref") => self.read_table(lexer),
            Some(Object::Number(_)) => match self.object_at(at)? {
                Some((_, Object::Stream(stream))) => {
                    self.read_packed_table(&stream)?;
                    Ok(Some(stream.dict.clone()))
                }
                _ => Ok(None),
            },
            _ => Ok(None),
        }
    }

    /// Reads a table in text form, and the dictionary behind it.
    fn read_table(&mut self, mut lexer: Lexer<'_>) -> Result<Option<Dict>, DocumentError> {
        while let Some(first) = lexer.next()? {
            if first.is_word("trailer") {
                return Ok(match lexer.next()? {
                    Some(Object::Dict(dict)) => Some(dict),
                    _ => None,
                });
            }
            let (Some(first), Some(count)) = (first.index(), lexer.next()?.as_ref().and_then(Object::index))
            else {
                return Ok(None);
            };
            for number in (first..).take(count) {
                let at = lexer.next()?.as_ref().and_then(Object::index);
                let (_, kind) = (lexer.next()?, lexer.next()?);
                let (Some(at), Some(Object::Word(kind))) = (at, kind) else { return Ok(None) };
                let place = if *kind == *"n" { Place::At(at) } else { Place::Deleted };
                if let Ok(number) = u32::try_from(number) {
                    self.place(number, place, false)?;
                }
            }
        }
        Ok(None)
    }

    /// Reads a table that is a stream of numbers.
    fn read_packed_table(&mut self, stream: &Stream) -> Result<(), DocumentError> {
        let Some(bytes) = self.unpacked(stream)? else { return Ok(()) };
        let numbers = |key: &str| match stream.dict.get(key) {
            Object::List(items) => items.iter().filter_map(Object::index).collect(),
            _ => Vec::new(),
        };
        let [kind, second, third] = numbers("W")[..] else { return Ok(()) };
        if [kind, second, third].iter().any(|width| *width > 8) || kind + second + third == 0 {
            return Ok(());
        }
        let mut sections = numbers("Index");
        if sections.is_empty() {
            sections = vec![0, stream.dict.get("Size").index().unwrap_or(0)];
        }
        let mut rows = bytes.chunks_exact(kind + second + third);
        for section in sections.chunks_exact(2) {
            for number in (section[0]..).take(section[1]) {
                let Some(row) = rows.next() else { return Ok(()) };
                let field = |from: usize, width: usize| {
                    row[from..from + width].iter().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte))
                };
                let (a, b) = (field(kind, second), field(kind + second, third));
                let (Ok(number), Ok(at), Ok(index)) =
                    (u32::try_from(number), usize::try_from(a), usize::try_from(b))
                else {
                    continue;
                };
                let place = match if kind == 0 { 1 } else { field(0, kind) } {
                    1 => Place::At(at),
                    2 => Place::Packed { stream: u32::try_from(a).unwrap_or(u32::MAX), index },
                    _ => Place::Deleted,
                };
                self.place(number, place, false)?;
            }
        }
        Ok(())
    }

    /// Reads the object whose header is here; returns its number.
    fn object_at(&self, at: usize) -> Result<Option<(u32, Object)>, DocumentError> {
        let mut lexer = Lexer::new(self.bytes, at, self.work);
        let number = lexer.next()?.as_ref().and_then(Object::index);
        let _generation = lexer.next()?;
        let is_object = lexer.next()?.is_some_and(|word| word.is_word("obj"));
        let Some(number) = number.filter(|_| is_object).and_then(|number| u32::try_from(number).ok()) else {
            return Ok(None);
        };
        let object = lexer.next()?.unwrap_or(Object::Null);
        let Object::Dict(dict) = object else { return Ok(Some((number, object))) };
        let behind = lexer.at();
        if !lexer.next()?.is_some_and(|word| word.is_word("stream")) || lexer.at() == behind {
            return Ok(Some((number, Object::Dict(dict))));
        }
        let start = lexer.skip_to_data();
        let length = self.resolve(dict.get("Length"))?.index();
        let end = match length.and_then(|length| start.checked_add(length)).filter(|end| self.is_end(*end)) {
            Some(end) => end,
            None => {
                let rest = self.bytes.get(start..).unwrap_or(&[]);
                let length = memchr::memmem::find(rest, b"endstream").unwrap_or(rest.len());
                self.work.bytes(length)?;
                start + length
            }
        };
        Ok(Some((number, Object::Stream(Rc::new(Stream { dict, place: start..end })))))
    }

    /// Returns `true` if the data of a stream may end here.
    fn is_end(&self, at: usize) -> bool {
        let rest = self.bytes.get(at..).unwrap_or(&[]);
        let blank = rest.iter().take(3).take_while(|byte| byte.is_ascii_whitespace()).count();
        rest[blank..].starts_with(b"endstream")
    }

    /// Returns the object of a number; `Null` if there is none, or if reading it needs itself.
    fn get(&self, number: u32) -> Result<Object, DocumentError> {
        let depth = self.nesting.get();
        if depth >= MAX_NESTING {
            return Ok(Object::Null);
        }
        self.nesting.set(depth + 1);
        let object = self.read(number);
        self.nesting.set(depth);
        DocumentError::skip_damage(object)
    }

    fn read(&self, number: u32) -> Result<Object, DocumentError> {
        self.work.step()?;
        match self.places.get(&number) {
            Some(Place::At(at)) => Ok(match self.object_at(*at)? {
                Some((own, object)) if own == number => object,
                _ => Object::Null,
            }),
            Some(Place::Packed { stream, index }) => {
                let Some(packed) = self.packed(*stream)? else { return Ok(Object::Null) };
                let is_own = |object: &&(u32, usize)| object.0 == number;
                self.work.bytes(packed.objects.len())?;
                let known = packed.objects.get(*index).filter(is_own);
                let Some((_, at)) = known.or_else(|| packed.objects.iter().find(is_own)) else {
                    return Ok(Object::Null);
                };
                Ok(Lexer::new(&packed.bytes, *at, self.work).next()?.unwrap_or(Object::Null))
            }
            Some(Place::Deleted) | None => Ok(Object::Null),
        }
    }

    /// Returns the objects of a stream of objects.
    fn packed(&self, number: u32) -> Result<Option<Rc<PackedObjects>>, DocumentError> {
        if let Some(known) = self.packed.borrow().get(&number) {
            return Ok(known.clone());
        }
        let read = match self.get(number)? {
            Object::Stream(stream) => self.read_packed(&stream)?.map(Rc::new),
            _ => None,
        };
        self.packed.borrow_mut().insert(number, read.clone());
        Ok(read)
    }

    fn read_packed(&self, stream: &Stream) -> Result<Option<PackedObjects>, DocumentError> {
        let count = self.resolve(stream.dict.get("N"))?.index();
        let first = self.resolve(stream.dict.get("First"))?.index();
        let (Some(count), Some(first), Some(bytes)) = (count, first, self.unpacked(stream)?) else {
            return Ok(None);
        };
        let (mut objects, mut lexer) = (Vec::new(), Lexer::of_content(&bytes, self.work));
        for _ in 0..count {
            let (Some(Object::Number(number)), Some(Object::Number(at))) = (lexer.next()?, lexer.next()?)
            else {
                break;
            };
            objects.push((number as u32, first.saturating_add(at as usize)));
            self.packed_count.set(self.packed_count.get() + 1);
            if self.packed_count.get() > MAX_OBJECTS {
                return Err(DocumentError::TooMany { what: "objects", limit: MAX_OBJECTS });
            }
        }
        Ok(Some(PackedObjects { bytes, objects }))
    }

    /// Returns the catalog of the file; empty if there is none.
    ///
    /// # Errors
    /// Returns an error if a limit is exceeded.
    pub(super) fn catalog(&self) -> Result<Dict, DocumentError> {
        self.dict(self.trailer.get("Root"))
    }

    /// Follows references.
    ///
    /// # Errors
    /// Returns an error if a limit is exceeded.
    pub(super) fn resolve(&self, object: &Object) -> Result<Object, DocumentError> {
        let Object::Reference(number) = object else { return Ok(object.clone()) };
        let mut number = *number;
        for _ in 0..MAX_HOPS {
            match self.get(number)? {
                Object::Reference(next) => number = next,
                object => return Ok(object),
            }
        }
        Ok(Object::Null)
    }

    /// Returns a dictionary, or that of a stream; empty for other objects.
    ///
    /// # Errors
    /// Returns an error if a limit is exceeded.
    pub(super) fn dict(&self, object: &Object) -> Result<Dict, DocumentError> {
        Ok(match self.resolve(object)? {
            Object::Dict(dict) => dict,
            Object::Stream(stream) => stream.dict.clone(),
            _ => Dict::default(),
        })
    }

    /// Returns the content of a stream; `None` if it is not a stream, or an image.
    ///
    /// # Errors
    /// Returns an error if a limit is exceeded.
    pub(super) fn data(&self, object: &Object) -> Result<Option<Vec<u8>>, DocumentError> {
        match self.resolve(object)? {
            Object::Stream(stream) => self.unpacked(&stream),
            _ => Ok(None),
        }
    }

    /// Returns the content of a stream; `None` for images.
    ///
    /// # Errors
    /// Returns an error if a limit is exceeded.
    pub(super) fn unpacked(&self, stream: &Stream) -> Result<Option<Vec<u8>>, DocumentError> {
        let bytes = self.bytes.get(stream.place.clone()).unwrap_or(&[]);
        let filters = self.list(stream.dict.either("Filter", "F"))?;
        let settings = self.list(stream.dict.either("DecodeParms", "DP"))?;
        if filters.len() > MAX_FILTERS {
            return Ok(None);
        }
        if filters.is_empty() {
            self.work.unpack(bytes.len())?;
            return Ok(Some(bytes.to_vec()));
        }
        let mut unpacked = None;
        for (place, filter) in filters.iter().enumerate() {
            let filter = self.resolve(filter)?;
            let settings = self.dict(settings.get(place).unwrap_or(&Object::Null))?;
            let number = |key: &str, default: usize| -> Result<usize, DocumentError> {
                Ok(self.resolve(settings.get(key))?.index().unwrap_or(default))
            };
            let prediction = Prediction {
                kind: number("Predictor", 1)?,
                colors: number("Colors", 1)?,
                bits: number("BitsPerComponent", 8)?,
                columns: number("Columns", 1)?,
                is_early: number("EarlyChange", 1)? != 0,
            };
            let input = unpacked.as_deref().unwrap_or(bytes);
            match unpack(filter.name().unwrap_or(""), input, prediction, self.work)? {
                Some(output) => unpacked = Some(output),
                None => return Ok(None),
            }
        }
        Ok(unpacked)
    }

    /// Returns the items of a list; another object is the only item.
    fn list(&self, object: &Object) -> Result<Rc<[Object]>, DocumentError> {
        Ok(match self.resolve(object)? {
            Object::List(items) => items,
            Object::Null => Rc::default(),
            one => [one].into(),
        })
    }
}
