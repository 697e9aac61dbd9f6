//! The search for the nearest vectors of a space.
//!
//! Recently searched spaces are held in memory, up to [`MAX_HELD`] bytes. A larger space is read from the
//! store in each search.

use super::contract::{
    MAX_SPACE_VECTORS, NewVector, StoredVector, VectorChange, VectorOwner, VectorSelection, VectorSpace,
    Vectors,
};
use super::memory::MemoryVectors;
use super::ranking::{Best, unit};
use crate::error::{StoreError, StoreErrorKind};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use tokio::sync::Semaphore;
use valvehouse_core::provider::dot_product as dot;
use valvehouse_json::Json;

/// The maximum size of the vectors in memory, in bytes.
const MAX_HELD: usize = 256 << 20;
/// The maximum number of concurrent searches; others wait.
const MAX_SEARCHES: usize = 2;
/// The number of vectors that are read at a time.
const BATCH: u64 = 256;
/// The maximum number of vectors that are compared on the thread of a request; a separate thread compares
/// more.
const MAX_VECTORS_INLINE: usize = 2_000;
/// The bytes that count for a vector in memory in addition to its components and the text of its id.
const OVERHEAD: usize = 40;

/// A vector store with a search. Clones share it.
#[derive(Clone)]
pub struct VectorIndex(Arc<Inner>);

struct Inner {
    store: Arc<dyn Vectors>,
    held: Mutex<HashMap<VectorOwner, Arc<HeldSpace>>>,
    uses: AtomicU64,
    searches: Semaphore,
    max_held: usize,
}

/// A space in memory, and its last use.
#[derive(Default)]
struct HeldSpace {
    loaded: tokio::sync::Mutex<Option<Arc<LoadedSpace>>>,
    used: AtomicU64,
    bytes: AtomicUsize,
}

/// The vectors of a space at one version.
#[derive(Default, Clone)]
struct LoadedSpace {
    version: u64,
    dimensions: usize,
    ids: Vec<Box<str>>,
    /// The components of all vectors, in the order of `ids`.
    components: Vec<f32>,
}

/// A vector found by a search.
#[derive(Debug, Clone, PartialEq)]
pub struct FoundVector {
    /// Its id.
    pub id: String,
    /// The cosine similarity to the searched vector, from -1 to 1.
    pub score: f32,
    /// Its data.
    pub data: Json,
}

impl std::fmt::Debug for VectorIndex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("VectorIndex")
    }
}

/// Creates an index in memory, which ends with the process.
impl Default for VectorIndex {
    fn default() -> Self {
        Self::new(Arc::new(MemoryVectors::default()))
    }
}

impl VectorIndex {
    /// Returns an index that starts as a copy of this one; its changes stay in memory.
    #[must_use]
    pub fn copy_in_memory(&self) -> Self {
        Self::new(Arc::new(MemoryVectors::copy_of(self.0.store.clone())))
    }

    /// Creates an index over this store.
    pub fn new(store: Arc<dyn Vectors>) -> Self {
        Self::holding(store, MAX_HELD)
    }

    fn holding(store: Arc<dyn Vectors>, max_held: usize) -> Self {
        let searches = Semaphore::new(MAX_SEARCHES);
        let (held, uses) = (Mutex::default(), AtomicU64::default());
        Self(Arc::new(Inner { store, held, uses, searches, max_held }))
    }

    /// Returns the store of the vectors.
    pub fn store(&self) -> &Arc<dyn Vectors> {
        &self.0.store
    }

    /// Returns an id of a text in a space, equal for equal texts and irreversible ([`Vectors::id_of`]).
    pub fn id_of(&self, owner: &VectorOwner, text: &str) -> String {
        self.0.store.id_of(owner, text)
    }

    /// Returns the size of the vectors in memory, in bytes.
    pub fn held_bytes(&self) -> usize {
        self.0.held.lock().values().map(|space| space.bytes.load(Relaxed)).sum()
    }

    /// Stores vectors, scaled to length 1, and returns the new state of the space.
    ///
    /// # Errors
    /// Returns an error, and stores nothing, if a vector has no direction, a limit would be exceeded, or the
    /// store fails.
    pub async fn put(
        &self,
        owner: &VectorOwner,
        label: &str,
        entries: Vec<NewVector>,
        replace: bool,
        max_count: u64,
    ) -> Result<VectorSpace, StoreError> {
        let mut put = Vec::with_capacity(entries.len());
        for NewVector { id, data, vector } in entries {
            let vector = unit(vector).ok_or_else(|| without_direction("store vectors"))?;
            put.push(NewVector { id, data, vector });
        }
        let max_count = max_count.min(MAX_SPACE_VECTORS);
        self.0.store.change_vectors(owner, VectorChange { label, put: &put, replace, max_count }).await
    }

    /// Deletes vectors by their ids, or all of a space, and returns their number.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    pub async fn delete(&self, owner: &VectorOwner, ids: Option<&[String]>) -> Result<u64, StoreError> {
        let deleted = self.0.store.delete_vectors(owner, ids).await?;
        if ids.is_none() {
            self.0.held.lock().remove(owner);
        }
        Ok(deleted)
    }

    /// Returns the state of a space.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    pub async fn space(&self, owner: &VectorOwner) -> Result<VectorSpace, StoreError> {
        self.0.store.vector_space(owner).await
    }

    /// Reads vectors by their ids, without components.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    pub async fn get(&self, owner: &VectorOwner, ids: &[String]) -> Result<Vec<StoredVector>, StoreError> {
        self.0.store.vectors(owner, VectorSelection::Ids(ids)).await
    }

    /// Reads vectors without components that follow an id, in the order of their ids.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    pub async fn list(
        &self,
        owner: &VectorOwner,
        after: &str,
        limit: u64,
    ) -> Result<Vec<StoredVector>, StoreError> {
        self.0.store.vectors(owner, VectorSelection::All { after, limit }).await
    }

    /// Returns at most `count` nearest vectors with at least this score, nearest first, and the number of
    /// compared components. Every vector of the space is compared.
    ///
    /// # Errors
    /// Returns an error if the searched vector has no direction or another number of dimensions, or the store
    /// fails.
    pub async fn nearest(
        &self,
        owner: &VectorOwner,
        vector: Vec<f32>,
        count: usize,
        min_score: f32,
    ) -> Result<(Vec<FoundVector>, u64), StoreError> {
        const DOING: &str = "search vectors";
        let vector = unit(vector).ok_or_else(|| without_direction(DOING))?;
        let space = self.space(owner).await?;
        if space.count == 0 || count == 0 {
            return Ok((Vec::new(), 0));
        }
        if space.dimensions != vector.len() as u64 {
            let (expected, got) = (space.dimensions, vector.len());
            let cause = format!("expected a vector of {expected} dimensions like the stored ones, got {got}");
            return Err(refused(DOING, cause));
        }
        // The semaphore is never closed.
        let _turn = self.0.searches.acquire().await;
        let best = match size_of(&space) <= self.0.max_held {
            true => self.search_held(owner, &space, vector, count, min_score).await?,
            false => self.search_stored(owner, &vector, count, min_score).await?,
        };
        let best = best.finish();
        let ids: Vec<String> = best.iter().map(|(id, _)| id.clone()).collect();
        let mut data: HashMap<String, Json> =
            self.get(owner, &ids).await?.into_iter().map(|one| (one.id, one.data)).collect();
        // A vector that was deleted meanwhile is left out.
        let found = best.into_iter().filter_map(|(id, score)| {
            let data = data.remove(&id)?;
            Some(FoundVector { id, score, data })
        });
        Ok((found.collect(), space.count * space.dimensions))
    }

    async fn search_held(
        &self,
        owner: &VectorOwner,
        space: &VectorSpace,
        vector: Vec<f32>,
        count: usize,
        min_score: f32,
    ) -> Result<Best, StoreError> {
        let loaded = self.loaded(owner, space).await?;
        if loaded.ids.len() <= MAX_VECTORS_INLINE {
            return Ok(loaded.search(&vector, count, min_score));
        }
        let search = tokio::task::spawn_blocking(move || loaded.search(&vector, count, min_score));
        search.await.map_err(|error| refused("search vectors", error.to_string()))
    }

    /// Compares the vectors of a space that exceeds the memory limit while they are read.
    async fn search_stored(
        &self,
        owner: &VectorOwner,
        vector: &[f32],
        count: usize,
        min_score: f32,
    ) -> Result<Best, StoreError> {
        let mut best = Best::new(count, min_score);
        let mut after = String::new();
        loop {
            let selection = VectorSelection::Changed { since: 0, after: &after, limit: BATCH };
            let read = self.0.store.vectors(owner, selection).await?;
            let Some(last) = read.last() else { return Ok(best) };
            after.clone_from(&last.id);
            for one in read.iter().filter(|one| one.vector.len() == vector.len()) {
                best.add(&one.id, dot(&one.vector, vector));
            }
            tokio::task::yield_now().await;
        }
    }

    /// Returns the vectors of a space in memory, at this version or a later one.
    async fn loaded(&self, owner: &VectorOwner, space: &VectorSpace) -> Result<Arc<LoadedSpace>, StoreError> {
        let held = self.0.held.lock().entry(owner.clone()).or_default().clone();
        held.used.store(self.0.uses.fetch_add(1, Relaxed), Relaxed);
        let mut place = held.loaded.lock().await;
        if let Some(loaded) = place.as_ref().filter(|loaded| loaded.version >= space.version) {
            return Ok(loaded.clone());
        }
        held.bytes.store(size_of(space), Relaxed);
        self.make_room(owner);
        let known = place.take().filter(|known| known.dimensions as u64 == space.dimensions);
        let mut loaded = None;
        if let Some(known) = known {
            let mut known = Arc::unwrap_or_clone(known);
            self.load(owner, &mut known).await?;
            // Deleted vectors are still among them, so the counts differ.
            loaded = Some(known).filter(|known| known.ids.len() as u64 == space.count);
        }
        let mut loaded = match loaded {
            Some(loaded) => loaded,
            None => {
                let dimensions = usize::try_from(space.dimensions).unwrap_or(usize::MAX);
                let mut all = LoadedSpace { dimensions, ..LoadedSpace::default() };
                self.load(owner, &mut all).await?;
                all
            }
        };
        // Vectors written during the read are read again by the next search.
        loaded.version = space.version;
        held.bytes.store(loaded.size(), Relaxed);
        self.make_room(owner);
        let loaded = Arc::new(loaded);
        *place = Some(loaded.clone());
        Ok(loaded)
    }

    /// Reads the vectors written since the loaded version.
    async fn load(&self, owner: &VectorOwner, loaded: &mut LoadedSpace) -> Result<(), StoreError> {
        let mut places: HashMap<Box<str>, usize> =
            loaded.ids.iter().enumerate().map(|(at, id)| (id.clone(), at)).collect();
        let mut after = String::new();
        loop {
            let selection = VectorSelection::Changed { since: loaded.version, after: &after, limit: BATCH };
            let read = self.0.store.vectors(owner, selection).await?;
            let Some(last) = read.last() else { return Ok(()) };
            after.clone_from(&last.id);
            for StoredVector { id, vector, .. } in read {
                // The vector is of another model and was written just now.
                if vector.len() != loaded.dimensions {
                    continue;
                }
                match places.get(id.as_str()) {
                    Some(at) => {
                        let start = at * loaded.dimensions;
                        loaded.components[start..start + loaded.dimensions].copy_from_slice(&vector);
                    }
                    None => {
                        places.insert(id.as_str().into(), loaded.ids.len());
                        loaded.ids.push(id.into());
                        loaded.components.extend_from_slice(&vector);
                    }
                }
            }
            tokio::task::yield_now().await;
        }
    }

    /// Drops the least recently used spaces until this one fits.
    fn make_room(&self, owner: &VectorOwner) {
        let mut held = self.0.held.lock();
        loop {
            let sum: usize = held.values().map(|space| space.bytes.load(Relaxed)).sum();
            if sum <= self.0.max_held {
                return;
            }
            let others = held.iter().filter(|(other, _)| *other != owner);
            let oldest = others.min_by_key(|(_, space)| space.used.load(Relaxed));
            let Some(oldest) = oldest.map(|(oldest, _)| oldest.clone()) else { return };
            held.remove(&oldest);
        }
    }
}

impl LoadedSpace {
    /// Returns the size of the space in memory, in bytes.
    fn size(&self) -> usize {
        let ids: usize = self.ids.iter().map(|id| id.len() + OVERHEAD).sum();
        ids + 4 * self.components.len()
    }

    fn search(&self, vector: &[f32], count: usize, min_score: f32) -> Best {
        let mut best = Best::new(count, min_score);
        for (id, own) in self.ids.iter().zip(self.components.chunks_exact(self.dimensions.max(1))) {
            best.add(id, dot(own, vector));
        }
        best
    }
}

/// Returns the approximate size of a space in memory, in bytes; the texts of its ids are not known yet.
fn size_of(space: &VectorSpace) -> usize {
    let components = space.count.saturating_mul(space.dimensions).saturating_mul(4);
    let count = usize::try_from(space.count).unwrap_or(usize::MAX);
    usize::try_from(components).unwrap_or(usize::MAX).saturating_add(count.saturating_mul(OVERHEAD))
}

fn without_direction(doing: &str) -> StoreError {
    let cause = "the components of a vector must be within ±3.4e38, and not all of them zero";
    refused(doing, cause.to_owned())
}

fn refused(doing: &str, cause: String) -> StoreError {
    let (doing, place) = (doing.to_owned(), "vectors".to_owned());
    StoreError { doing, place, kind: StoreErrorKind::Refused, cause, help: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(scope: &str) -> VectorOwner {
        VectorOwner { plugin: "notes".to_owned(), scope: scope.to_owned() }
    }

    fn entry(id: &str, vector: &[f32]) -> NewVector {
        NewVector { id: id.to_owned(), data: id.into(), vector: vector.to_vec() }
    }

    async fn found(index: &VectorIndex, owner: &VectorOwner, vector: &[f32], count: usize) -> Vec<String> {
        let (found, _) = index.nearest(owner, vector.to_vec(), count, -1.0).await.unwrap();
        found.into_iter().map(|one| one.id).collect()
    }

    #[tokio::test]
    async fn nearest_vectors_are_found_during_writes_and_deletions() {
        let store: Arc<dyn Vectors> = Arc::new(MemoryVectors::default());
        // One index holds everything, the other one has no memory for any space.
        let (index, other) = (VectorIndex::new(store.clone()), VectorIndex::holding(store, 0));
        let own = owner("own");
        let entries = vec![entry("a", &[1.0, 0.0]), entry("b", &[0.0, 2.0]), entry("c", &[1.0, 1.0])];
        index.put(&own, "", entries, false, 100).await.unwrap();
        for index in [&index, &other] {
            assert_eq!(found(index, &own, &[3.0, 0.1], 2).await, ["a", "c"]);
            assert_eq!(found(index, &owner("user/ann"), &[1.0, 0.0], 2).await, Vec::<String>::new());
        }
        other
            .put(&own, "", vec![entry("d", &[1.0, 0.05]), entry("a", &[-1.0, 0.0])], false, 100)
            .await
            .unwrap();
        assert_eq!(found(&index, &own, &[1.0, 0.0], 4).await, ["d", "c", "b", "a"]);
        assert_eq!(other.delete(&own, Some(&["d".to_owned()])).await.unwrap(), 1);
        assert_eq!(found(&index, &own, &[1.0, 0.0], 4).await, ["c", "b", "a"]);
        other.put(&own, "other", vec![entry("x", &[1.0, 0.0, 0.0])], true, 100).await.unwrap();
        assert_eq!(found(&index, &own, &[1.0, 0.0, 0.0], 4).await, ["x"]);
        assert!(index.held_bytes() > 0 && other.held_bytes() == 0);
        let wrong = index.nearest(&own, vec![1.0, 0.0], 1, -1.0).await.unwrap_err();
        assert!(wrong.cause.contains("expected a vector of 3 dimensions"), "{wrong}");
        assert!(
            index
                .nearest(&own, vec![0.0; 3], 1, -1.0)
                .await
                .unwrap_err()
                .cause
                .contains("not all of them zero")
        );
    }

    #[tokio::test]
    async fn the_memory_for_spaces_is_bounded() {
        let store: Arc<dyn Vectors> = Arc::new(MemoryVectors::default());
        // The ids have one character each.
        let one = size_of(&VectorSpace { count: 10, dimensions: 8, ..VectorSpace::default() }) + 10;
        let index = VectorIndex::holding(store, 3 * one);
        for number in 0..10 {
            let own = owner(&format!("user/{number}"));
            let entries = (0..10).map(|at| entry(&format!("{at}"), &[1.0; 8])).collect();
            index.put(&own, "", entries, false, 100).await.unwrap();
            assert_eq!(found(&index, &own, &[1.0; 8], 1).await, ["0"]);
            assert!(index.held_bytes() <= 3 * one);
        }
        assert_eq!(index.0.held.lock().len(), 3);
    }

    /// The ids are much larger than the vectors.
    #[tokio::test]
    async fn the_ids_count_toward_the_memory_for_spaces() {
        let index = VectorIndex::holding(Arc::new(MemoryVectors::default()), 8_000);
        for number in 0..10 {
            let own = owner(&format!("user/{number}"));
            let entries = (0..10).map(|at| entry(&format!("{at:0>256}"), &[1.0])).collect();
            index.put(&own, "", entries, false, 100).await.unwrap();
            assert_eq!(found(&index, &own, &[1.0], 1).await.len(), 1);
        }
        assert_eq!(index.0.held.lock().len(), 2);
    }
}
