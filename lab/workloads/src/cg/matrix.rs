//! The benchmark's matrix: a sum of weighted outer products of random sparse vectors, by rows.
//!
//! For each row i a vector is drawn: `row_nonzeros` distinct random positions with random values, and 1/2 at position i.
//! The matrix is the sum over i of `weight_i * v_i * v_i^T`, with weights that fall geometrically from 1 to 0.1, plus
//! `0.1 - shift` on the diagonal. So it is symmetric, and (without the shift) positive definite with condition about 10.

use super::class::Problem;
use super::random::Random;
use super::shared::SharedVector;
use std::ops::Range;

/// Reciprocal of the condition number: the last weight, and the increase of the diagonal.
const RECIPROCAL_CONDITION: f64 = 0.1;

/// Half the diagonal's own element of each generating vector.
const OWN_ELEMENT: f64 = 0.5;

/// A square sparse matrix by rows, with ascending columns in each row.
///
/// Invariant: every element of `columns` is less than `rows`.
#[derive(Debug)]
pub(super) struct Matrix {
    rows: usize,
    /// Row i is `starts[i]..starts[i + 1]` of the two below.
    starts: Vec<usize>,
    columns: Vec<u32>,
    values: Vec<f64>,
}

/// One generating vector: (position, value), the own element anywhere.
type Generator = Vec<(u32, f64)>;

impl Matrix {
    /// The matrix of `problem`.
    pub(super) fn generate(problem: &Problem) -> Self {
        let mut random = Random::new();
        // The benchmark draws one number before it begins, and discards it.
        let _ = random.uniform();
        let generators: Vec<_> =
            (0..problem.rows).map(|row| generate_vector(&mut random, problem, row)).collect();
        assemble(problem, &generators)
    }

    /// Number of rows, which is also that of columns.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Number of stored elements.
    pub(super) fn nonzeros(&self) -> usize {
        self.columns.len()
    }

    /// Sets `product[k]` to row `rows.start + k` times `vector`.
    ///
    /// # Panics
    ///
    /// When the length of `vector` is not the width of the matrix, or `rows` exceeds it.
    pub(super) fn multiply(&self, rows: Range<usize>, vector: &SharedVector, product: &mut [f64]) {
        assert_eq!(vector.len(), self.rows);
        let bounds = self.starts[rows.start..=rows.end].windows(2);
        for (bounds, product) in bounds.zip(product) {
            let row = bounds[0]..bounds[1];
            *product = row_times(&self.columns[row.clone()], &self.values[row], |column| {
                // SAFETY: columns are less than `rows` (the type's invariant), which is the vector's length (asserted).
                unsafe { vector.get_unchecked(column as usize) }
            });
        }
    }
}

/// The inner product of a row and a vector, in four interleaved sums so that additions do not depend on each other. The order
/// only depends on the row.
#[inline(always)]
fn row_times(columns: &[u32], values: &[f64], element: impl Fn(u32) -> f64) -> f64 {
    let (column_fours, column_rest) = columns.as_chunks::<4>();
    let (value_fours, value_rest) = values.as_chunks::<4>();
    let mut sums = [0.0; 4];
    for (columns, values) in column_fours.iter().zip(value_fours) {
        for lane in 0..4 {
            sums[lane] += values[lane] * element(columns[lane]);
        }
    }
    let rest: f64 = column_rest.iter().zip(value_rest).map(|(column, value)| value * element(*column)).sum();
    (sums[0] + sums[1]) + (sums[2] + sums[3]) + rest
}

/// Draws the vector of `row`. Each attempt takes two numbers, value then position. A position that is out of range or already used is
/// rejected, with its value.
fn generate_vector(random: &mut Random, problem: &Problem, row: u32) -> Generator {
    let position_bits = problem.rows.next_power_of_two().trailing_zeros();
    let wanted = problem.row_nonzeros as usize;
    let mut vector = Generator::with_capacity(wanted + 1);
    while vector.len() < wanted {
        let value = random.uniform();
        let position = random.below_power_of_two(position_bits);
        if position < problem.rows && vector.iter().all(|(taken, _)| *taken != position) {
            vector.push((position, value));
        }
    }
    match vector.iter_mut().find(|(position, _)| *position == row) {
        Some((_, value)) => *value = OWN_ELEMENT,
        None => vector.push((row, OWN_ELEMENT)),
    }
    vector
}

/// Sums the outer products: all contributions are first distributed to their rows, in order of generation. Then each row is
/// sorted by column, and contributions to one element are added.
fn assemble(problem: &Problem, generators: &[Generator]) -> Matrix {
    let rows = generators.len();
    let mut ends = vec![0_usize; rows + 1];
    for vector in generators {
        for (position, _) in vector {
            ends[*position as usize + 1] += vector.len();
        }
    }
    for row in 0..rows {
        ends[row + 1] += ends[row];
    }
    let mut dealt = vec![(0_u32, 0.0_f64); ends[rows]];
    let mut next = ends.clone();
    let ratio = RECIPROCAL_CONDITION.powf(1.0 / f64::from(problem.rows));
    let mut weight = 1.0;
    for (own, vector) in (0_u32..).zip(generators) {
        for (row, row_value) in vector {
            let scale = weight * row_value;
            for (column, column_value) in vector {
                let mut contribution = column_value * scale;
                if *row == own && *column == own {
                    contribution += RECIPROCAL_CONDITION - problem.shift;
                }
                let place = &mut next[*row as usize];
                dealt[*place] = (*column, contribution);
                *place += 1;
            }
        }
        weight *= ratio;
    }

    let mut matrix = Matrix { rows, starts: vec![0], columns: Vec::new(), values: Vec::new() };
    for row in 0..rows {
        let contributions = &mut dealt[ends[row]..ends[row + 1]];
        // A stable sort: contributions to one element stay in order of generation.
        contributions.sort_by_key(|(column, _)| *column);
        for same in contributions.chunk_by(|a, b| a.0 == b.0) {
            matrix.columns.push(same[0].0);
            matrix.values.push(same.iter().map(|(_, value)| value).sum());
        }
        matrix.starts.push(matrix.columns.len());
    }
    matrix
}

#[cfg(test)]
mod tests {
    use super::super::class::Class;
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    fn elements(matrix: &Matrix) -> HashMap<(u32, u32), f64> {
        let row_of = |row: usize| {
            let range = matrix.starts[row]..matrix.starts[row + 1];
            matrix.columns[range.clone()].iter().zip(&matrix.values[range])
        };
        let rows = u32::try_from(matrix.rows).unwrap();
        (0..rows)
            .flat_map(|row| row_of(row as usize).map(move |(column, value)| ((row, *column), *value)))
            .collect()
    }

    #[test]
    fn the_matrix_of_class_s_is_symmetric_within_rounding_and_within_its_bound() {
        let problem = Class::S.problem();
        let matrix = Matrix::generate(&problem);
        let elements = elements(&matrix);
        assert_eq!(elements.len(), matrix.nonzeros());
        assert!(matrix.nonzeros() <= problem.nonzeros_max());
        for ((row, column), value) in &elements {
            let mirrored = elements[&(*column, *row)];
            assert!((value - mirrored).abs() <= 1e-12 * value.abs(), "{row} {column}: {value} {mirrored}");
        }
    }

    #[test]
    fn the_diagonal_of_class_s_is_full_and_near_minus_the_shift() {
        let matrix = Matrix::generate(&Class::S.problem());
        let elements = elements(&matrix);
        // 0.1 - 10 + weight/4 (weights run from 1 to 0.1) + squares below 1 of the few vectors that meet the diagonal.
        for row in 0..1_400 {
            let diagonal = elements[&(row, row)];
            assert!((-9.9 + 0.025..0.0).contains(&diagonal), "{row}: {diagonal}");
        }
    }

    #[test]
    fn a_matrix_of_one_row_is_worked_out_by_hand() {
        // The only vector is (1/2 at 0), since the drawn position 0 is its own; weight 1: 1/4 + 0.1 - 2.
        let problem = Problem { rows: 1, row_nonzeros: 1, iterations: 1, shift: 2.0 };
        let matrix = Matrix::generate(&problem);
        assert_eq!((matrix.rows(), matrix.nonzeros()), (1, 1));
        assert!((matrix.values[0] - (0.25 + 0.1 - 2.0)).abs() < 1e-15);
    }

    #[test]
    fn the_first_vector_takes_the_second_number_as_value_and_the_third_as_position() {
        // Numbers two to five: 0.869..., 0.6476... -> int(0.6476 x 2048) = 1326, 0.7855..., 0.01776... -> int(36.38) = 36.
        let mut random = Random::new();
        let _ = random.uniform();
        let vector = generate_vector(&mut random, &Class::S.problem(), 0);
        assert_eq!(vector[0].0, 1_326);
        assert!((vector[0].1 - 0.869_065_274_5).abs() < 1e-9);
        assert_eq!(vector[1].0, 36);
        assert!((vector[1].1 - 0.785_562_650_2).abs() < 1e-9);
        assert_eq!(vector[7], (0, 0.5));
        assert_eq!(vector.len(), 8);
    }

    fn small_problem() -> impl Strategy<Value = Problem> {
        (1_u32..60).prop_flat_map(|rows| {
            (1..=rows.min(6), 0.0..20.0_f64).prop_map(move |(row_nonzeros, shift)| Problem {
                rows,
                row_nonzeros,
                iterations: 1,
                shift,
            })
        })
    }

    proptest! {
        #[test]
        fn the_product_is_that_of_the_dense_definition(problem in small_problem()) {
            let mut random = Random::new();
            let _ = random.uniform();
            let size = problem.rows as usize;
            let mut dense = vec![vec![0.0; size]; size];
            for row in 0..size {
                let weight = 0.1_f64.powf(row as f64 / size as f64);
                let vector = generate_vector(&mut random, &problem, u32::try_from(row).unwrap());
                for (j, a) in &vector {
                    for (k, b) in &vector {
                        dense[*j as usize][*k as usize] += weight * a * b;
                    }
                }
                dense[row][row] += 0.1 - problem.shift;
            }
            let values: Vec<f64> = (0..size).map(|k| 1.0 + k as f64 / 7.0).collect();
            let vector = SharedVector::new(size);
            vector.publish(0, &values);
            let (matrix, mut product) = (Matrix::generate(&problem), vec![0.0; size]);
            matrix.multiply(0..size, &vector, &mut product);
            prop_assert!(matrix.nonzeros() <= problem.nonzeros_max());
            for row in 0..size {
                let expected: f64 = dense[row].iter().zip(&values).map(|(a, b)| a * b).sum();
                let scale: f64 = dense[row].iter().zip(&values).map(|(a, b)| (a * b).abs()).sum();
                prop_assert!((product[row] - expected).abs() <= 1e-12 * scale, "row {row}: {} {expected}", product[row]);
            }
        }

        #[test]
        fn rows_of_a_part_are_those_of_the_whole(problem in small_problem(), cut in 0.0..1.0_f64) {
            let matrix = Matrix::generate(&problem);
            let size = matrix.rows();
            let cut = (0..size).take_while(|row| (*row as f64) < cut * size as f64).count();
            let vector = SharedVector::new(size);
            vector.fill(1.5);
            let (mut whole, mut parts) = (vec![0.0; size], vec![0.0; size]);
            matrix.multiply(0..size, &vector, &mut whole);
            let (low, high) = parts.split_at_mut(cut);
            matrix.multiply(0..cut, &vector, low);
            matrix.multiply(cut..size, &vector, high);
            prop_assert_eq!(whole, parts);
        }
    }
}
