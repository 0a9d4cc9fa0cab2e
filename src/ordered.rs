//! Builds and sorts collections with little memory and little program.

use std::cmp::Ordering;

/// Builds a collection by inserting one item after the other. `collect` sorts first, and sorting one more type costs 7
/// KB of program.
pub(crate) fn inserted<C: Default + Extend<T>, T>(items: impl IntoIterator<Item = T>) -> C {
    let mut collection = C::default();
    collection.extend(items);
    collection
}

/// Adds an item to a list that mostly keeps only one, for which `push` would reserve room for four.
pub(crate) fn push_lean<T>(list: &mut Vec<T>, item: T) {
    if list.is_empty() {
        list.reserve_exact(1);
    }
    list.push(item);
}

/// Sorts as the standard library's stable sort does, which costs 4 KB of program for each type. Only the places are sorted
/// here, whatever stands there.
pub(crate) fn sort_by<T>(list: &mut [T], compare: impl Fn(&T, &T) -> Ordering) {
    let mut places = sorted_places(list.len(), &|one, other| {
        list.get(one).zip(list.get(other)).map_or(Ordering::Equal, |(one, other)| compare(one, other))
    });
    for place in 0..list.len() {
        while let Some(to) = places.get(place).copied().filter(|to| *to != place) {
            list.swap(place, to);
            places.swap(place, to);
        }
    }
}

/// Sorts by the items' own order.
pub(crate) fn sort<T: Ord>(list: &mut [T]) {
    sort_by(list, T::cmp);
}

/// The place in the sorted list of each item.
fn sorted_places(length: usize, compare: &dyn Fn(usize, usize) -> Ordering) -> Vec<usize> {
    let mut order: Vec<usize> = (0..length).collect();
    order.sort_by(|one, other| compare(*one, *other));
    let mut places = vec![0; length];
    for (place, index) in order.into_iter().enumerate() {
        if let Some(of_index) = places.get_mut(index) {
            *of_index = place;
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_sorted_as_by_the_standard_library() {
        let mut number = 1_u64;
        for length in 0..200 {
            let mut list: Vec<(u64, usize)> = (0..length)
                .map(|index| {
                    number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    (number >> 60, index)
                })
                .collect();
            let mut expected = list.clone();
            expected.sort_by_key(|(key, _)| *key);
            sort_by(&mut list, |one, other| one.0.cmp(&other.0));
            assert_eq!(list, expected, "what is equal keeps its order");
        }
    }
}
