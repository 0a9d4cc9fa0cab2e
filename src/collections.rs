//! Builds collections with little memory and little code.

/// Builds a collection by inserting one item after the other. [`Iterator::collect`] sorts first, and sorting one more
/// type adds 7 KB to the program.
pub(crate) fn collect<C: Default + Extend<T>, T>(items: impl IntoIterator<Item = T>) -> C {
    let mut collection = C::default();
    collection.extend(items);
    collection
}

/// Adds an item to a list that mostly holds only one item. For the first item, `push` would reserve room for four.
pub(crate) fn push_lean<T>(list: &mut Vec<T>, item: T) {
    if list.is_empty() {
        list.reserve_exact(1);
    }
    list.push(item);
}
