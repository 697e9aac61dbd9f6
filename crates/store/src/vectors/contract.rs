//! The interface of stores with vectors, and the limits of a space.

use crate::error::StoreFuture;
use valvehouse_json::Json;

/// The maximum number of vectors of one space.
pub const MAX_SPACE_VECTORS: u64 = 100_000;
/// The maximum number of dimensions of a vector.
pub const MAX_VECTOR_DIMENSIONS: usize = 4_096;
/// The maximum length of an id, in bytes.
pub const MAX_VECTOR_ID: usize = 256;
/// The maximum size of the data of one vector, in bytes of its JSON text.
pub const MAX_VECTOR_DATA: usize = 64 << 10;
/// The maximum size of all spaces of one owner, in bytes of vectors and data.
const MAX_OWNER_BYTES: u64 = 1 << 30;

/// The owner of a vector space, and the scope of the space.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct VectorOwner {
    /// The plugin; "" for a user's memories, which the host stores.
    pub plugin: String,
    /// The scope of the space: `own`, or `user/ID`.
    pub scope: String,
}

/// The state of a vector space.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VectorSpace {
    /// The number of changes so far.
    pub version: u64,
    /// The name of the model that the vectors come from, or "".
    pub label: String,
    /// The number of dimensions of every vector; 0 for an empty space.
    pub dimensions: u64,
    /// The number of vectors.
    pub count: u64,
    /// The size of vectors and data, in bytes.
    pub bytes: u64,
}

/// A vector to store, which replaces one with the same id.
#[derive(Debug, Clone, PartialEq)]
pub struct NewVector {
    /// Its id within the space.
    pub id: String,
    /// Its data.
    pub data: Json,
    /// Its components, all of them finite.
    pub vector: Vec<f32>,
}

/// A stored vector.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredVector {
    /// Its id within the space.
    pub id: String,
    /// The version of the space that it was written with.
    pub version: u64,
    /// The time at which it was written, in milliseconds since 1970.
    pub at: i64,
    /// Its data; null if it was not read.
    pub data: Json,
    /// Its components; empty if they were not read.
    pub vector: Vec<f32>,
}

/// A change of a space, made completely or not at all.
#[derive(Debug, Clone, Copy)]
pub struct VectorChange<'a> {
    /// The name of the model that the vectors come from, or "".
    pub label: &'a str,
    /// The vectors to store.
    pub put: &'a [NewVector],
    /// `true` to delete all other vectors of the space.
    pub replace: bool,
    /// The maximum number of vectors in the space after the change.
    pub max_count: u64,
}

/// A selection of stored vectors.
#[derive(Debug, Clone, Copy)]
pub enum VectorSelection<'a> {
    /// The vectors written after a version, without data, that follow an id.
    Changed {
        /// The version; 0 selects all.
        since: u64,
        /// The last id that was read, or "".
        after: &'a str,
        /// The maximum number.
        limit: u64,
    },
    /// The vectors with these ids, without components.
    Ids(&'a [String]),
    /// All vectors, without components, that follow an id.
    All {
        /// The last id that was read, or "".
        after: &'a str,
        /// The maximum number.
        limit: u64,
    },
}

/// The store of vectors. Every method is one transaction.
pub trait Vectors: Send + Sync {
    /// Returns an id of a text in a space, equal for equal texts. Without the key of the store, the text
    /// cannot be found from the id, not even by guessing.
    fn id_of(&self, owner: &VectorOwner, text: &str) -> String;

    /// Returns the state of a space; empty if nothing was ever stored in it.
    fn vector_space<'a>(&'a self, owner: &'a VectorOwner) -> StoreFuture<'a, VectorSpace>;

    /// Reads vectors of a space in the order of their ids. Vectors that were changed by hand are left out.
    fn vectors<'a>(
        &'a self,
        owner: &'a VectorOwner,
        selection: VectorSelection<'a>,
    ) -> StoreFuture<'a, Vec<StoredVector>>;

    /// Changes a space and returns its new state.
    ///
    /// # Errors
    /// Returns an error, and changes nothing, if a limit would be exceeded, or if dimensions or label differ
    /// from those of the other vectors.
    fn change_vectors<'a>(
        &'a self,
        owner: &'a VectorOwner,
        change: VectorChange<'a>,
    ) -> StoreFuture<'a, VectorSpace>;

    /// Deletes vectors by their ids, or all of a space, and returns their number.
    fn delete_vectors<'a>(
        &'a self,
        owner: &'a VectorOwner,
        ids: Option<&'a [String]>,
    ) -> StoreFuture<'a, u64>;
}

impl NewVector {
    /// Returns the size in bytes that counts for it, with this JSON text of its data.
    pub(crate) fn size(&self, data: &str) -> u64 {
        (self.id.len() + data.len() + 4 * self.vector.len()) as u64
    }
}

/// Checks a change on its own, and returns the JSON texts of the data.
pub(crate) fn check_change(change: &VectorChange<'_>) -> Result<Vec<String>, String> {
    let dimensions = change.put.first().map_or(0, |one| one.vector.len());
    let mut texts = Vec::with_capacity(change.put.len());
    for one in change.put {
        let length = one.id.len();
        if length == 0 || length > MAX_VECTOR_ID || one.id.contains('\0') {
            return Err(format!("an id must have 1 to {MAX_VECTOR_ID} bytes, got {length}"));
        }
        let own = one.vector.len();
        if own == 0 || own > MAX_VECTOR_DIMENSIONS {
            return Err(format!("a vector must have 1 to {MAX_VECTOR_DIMENSIONS} dimensions, got {own}"));
        }
        if own != dimensions {
            return Err(differing(dimensions as u64, own as u64));
        }
        let data = one.data.encode().map_err(|error| format!("invalid data of `{}`: {error}", one.id))?;
        if data.len() > MAX_VECTOR_DATA {
            return Err(format!(
                "the data of `{}` exceeded its limit of {} KiB as JSON; store less of it",
                one.id,
                MAX_VECTOR_DATA >> 10
            ));
        }
        texts.push(String::from_utf8(data).map_err(|error| error.to_string())?);
    }
    Ok(texts)
}

/// Checks the new state of a space, given the vectors that are not replaced and the bytes of all spaces of
/// the owner.
pub(crate) fn checked_growth(
    change: &VectorChange<'_>,
    others: &VectorSpace,
    after: VectorSpace,
    owner_bytes: u64,
) -> Result<VectorSpace, String> {
    if others.count > 0 && others.dimensions != after.dimensions {
        return Err(differing(others.dimensions, after.dimensions));
    }
    if others.count > 0 && others.label != change.label {
        return Err(format!(
            "the other vectors come from the model `{}`, not `{}`",
            others.label, change.label
        ));
    }
    if after.count > change.max_count {
        return Err(format!(
            "the space exceeded its limit of {} entries; delete some first",
            change.max_count
        ));
    }
    if owner_bytes > MAX_OWNER_BYTES {
        return Err(format!(
            "the vectors exceeded their limit of {} MiB; delete some first",
            MAX_OWNER_BYTES >> 20
        ));
    }
    Ok(after)
}

fn differing(expected: u64, got: u64) -> String {
    format!(
        "expected a vector of {expected} dimensions like the others, got {got}; use one model for all of them"
    )
}
