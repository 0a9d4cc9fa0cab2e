//! Ordered collections.

/// What `collect` makes. That sorts first, and a sort of one more type is 7 KB of program; one by one nothing is sorted.
pub(crate) fn inserted<C: Default + Extend<T>, T>(items: impl IntoIterator<Item = T>) -> C {
    let mut collection = C::default();
    collection.extend(items);
    collection
}
