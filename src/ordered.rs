//! Collections of which there are thousands.

/// What `collect` makes. That sorts first, and a sort of one more type is 7 KB of program; one by one nothing is sorted.
pub(crate) fn inserted<C: Default + Extend<T>, T>(items: impl IntoIterator<Item = T>) -> C {
    let mut collection = C::default();
    collection.extend(items);
    collection
}

/// Adds an item to a list that mostly stays the only one: `push` makes room for four.
pub(crate) fn push_lean<T>(list: &mut Vec<T>, item: T) {
    if list.is_empty() {
        list.reserve_exact(1);
    }
    list.push(item);
}
