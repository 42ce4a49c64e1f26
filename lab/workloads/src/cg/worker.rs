//! One thread's part of the computation: its rows of every vector, and the steps between barriers.
//!
//! A step of the conjugate gradient has three phases. Each ends with a barrier, because each needs data of all rows: the
//! direction `p` (gathered by the product), `p.q` (for the step length) and `r.r` (for the next direction). Each thread owns its rows of
//! `x z r p q`. Only the vector that the product gathers, and the block sums, are shared. Data written in a phase is only read in
//! the next one, and written again at least one barrier later:
//!
//! ```text
//! publish p | q = A p, put p.q | z += a p, r -= a q, put r.r | p = r + b p, publish p | ...
//!           ^                  ^                             ^                        ^ barriers
//! ```

use super::barrier::{Barrier, Broken};
use super::class::INNER_STEPS;
use super::matrix::Matrix;
use super::partition::{BlockSums, Blocks, dot};
use super::shared::SharedVector;
use std::ops::Range;

/// Shared data of all threads of all teams of a run.
#[derive(Debug)]
pub(super) struct Board {
    pub(super) matrix: Matrix,
    pub(super) shift: f64,
    blocks: Blocks,
    /// The vector that the next product gathers: a direction `p`, or the solution `z`.
    gathered: SharedVector,
    /// The iterate between teams.
    x: SharedVector,
    p_q: BlockSums,
    r_r: BlockSums,
    x_z: BlockSums,
    z_z: BlockSums,
    residual: BlockSums,
}

/// The result of an outer iteration, equal in all threads.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Estimate {
    /// |x - A z|.
    pub(super) residual: f64,
    /// The eigenvalue estimate: shift + 1 / (x.z).
    pub(super) zeta: f64,
    /// |z|, by which the next iterate is scaled.
    norm: f64,
}

impl Board {
    /// A board for `matrix`, with x = 1.
    pub(super) fn new(matrix: Matrix, shift: f64) -> Self {
        let (rows, blocks) = (matrix.rows(), Blocks::new(matrix.rows()));
        let sums = || BlockSums::new(blocks);
        let board = Self {
            matrix,
            shift,
            blocks,
            gathered: SharedVector::new(rows),
            x: SharedVector::new(rows),
            p_q: sums(),
            r_r: sums(),
            x_z: sums(),
            z_z: sums(),
            residual: sums(),
        };
        board.reset();
        board
    }

    /// Sets x = 1. Only between teams.
    pub(super) fn reset(&self) {
        self.x.fill(1.0);
    }
}

/// A thread's rows. Each thread of a team allocates its own, so that the memory is local to it.
#[derive(Debug)]
pub(super) struct Worker<'a> {
    board: &'a Board,
    barrier: &'a Barrier,
    blocks: Range<usize>,
    rows: Range<usize>,
    x: Vec<f64>,
    z: Vec<f64>,
    r: Vec<f64>,
    p: Vec<f64>,
    q: Vec<f64>,
}

impl<'a> Worker<'a> {
    /// Thread `index` of `threads`, starting from the board's x.
    pub(super) fn new(board: &'a Board, barrier: &'a Barrier, index: usize, threads: usize) -> Self {
        let blocks = board.blocks.of_thread(index, threads);
        let rows = board.blocks.rows_of(&blocks);
        let zeros = || vec![0.0; rows.len()];
        let mut x = zeros();
        board.x.fetch(rows.start, &mut x);
        Self { board, barrier, z: zeros(), r: zeros(), p: zeros(), q: zeros(), blocks, rows, x }
    }

    /// Solves A z = x by [`INNER_STEPS`] steps and estimates the eigenvalue. `before_last_barrier` is called just before the last barrier: its
    /// writes are visible to all threads when they return from this function.
    pub(super) fn solve(&mut self, before_last_barrier: impl FnOnce()) -> Result<Estimate, Broken> {
        let (board, block_rows) = (self.board, self.board.blocks.block_rows());
        self.z.fill(0.0);
        self.r.copy_from_slice(&self.x);
        self.p.copy_from_slice(&self.x);
        board.gathered.publish(self.rows.start, &self.p);
        put_products(&board.r_r, &self.blocks, block_rows, &self.r, &self.r);
        self.barrier.wait()?;
        let mut rho = board.r_r.total();
        for step in 1..=INNER_STEPS {
            rho = self.step(rho, step == INNER_STEPS)?;
        }
        // The last step published z instead of a direction.
        board.matrix.multiply(self.rows.clone(), &board.gathered, &mut self.q);
        for (residual, (x, q)) in self.r.iter_mut().zip(self.x.iter().zip(&self.q)) {
            *residual = x - q;
        }
        put_products(&board.residual, &self.blocks, block_rows, &self.r, &self.r);
        put_products(&board.x_z, &self.blocks, block_rows, &self.x, &self.z);
        put_products(&board.z_z, &self.blocks, block_rows, &self.z, &self.z);
        before_last_barrier();
        self.barrier.wait()?;
        Ok(Estimate {
            residual: board.residual.total().sqrt(),
            zeta: board.shift + 1.0 / board.x_z.total(),
            norm: board.z_z.total().sqrt(),
        })
    }

    /// Executes one step of the conjugate gradient and returns the next r.r. The last step publishes z for the product.
    fn step(&mut self, rho: f64, is_last: bool) -> Result<f64, Broken> {
        let (board, block_rows) = (self.board, self.board.blocks.block_rows());
        board.matrix.multiply(self.rows.clone(), &board.gathered, &mut self.q);
        put_products(&board.p_q, &self.blocks, block_rows, &self.p, &self.q);
        self.barrier.wait()?;
        let alpha = rho / board.p_q.total();
        for (z, p) in self.z.iter_mut().zip(&self.p) {
            *z += alpha * p;
        }
        for (r, q) in self.r.iter_mut().zip(&self.q) {
            *r -= alpha * q;
        }
        if is_last {
            board.gathered.publish(self.rows.start, &self.z);
            self.barrier.wait()?;
            return Ok(rho);
        }
        put_products(&board.r_r, &self.blocks, block_rows, &self.r, &self.r);
        self.barrier.wait()?;
        let rho_next = board.r_r.total();
        let beta = rho_next / rho;
        for (p, r) in self.p.iter_mut().zip(&self.r) {
            *p = r + beta * *p;
        }
        board.gathered.publish(self.rows.start, &self.p);
        self.barrier.wait()?;
        Ok(rho_next)
    }

    /// Sets x = z / |z|.
    pub(super) fn advance(&mut self, estimate: &Estimate) {
        let scale = 1.0 / estimate.norm;
        for (x, z) in self.x.iter_mut().zip(&self.z) {
            *x = scale * z;
        }
    }

    /// Sets x = 1.
    pub(super) fn reset(&mut self) {
        self.x.fill(1.0);
    }

    /// Stores x for the next team. Safe at any time after the last barrier, because no thread reads it before all have ended.
    pub(super) fn hand_over(&self) {
        self.board.x.publish(self.rows.start, &self.x);
    }
}

/// Stores the inner product of each owned block.
fn put_products(sums: &BlockSums, blocks: &Range<usize>, block_rows: usize, a: &[f64], b: &[f64]) {
    for (block, (a, b)) in blocks.clone().zip(a.chunks(block_rows).zip(b.chunks(block_rows))) {
        sums.put(block, dot(a, b));
    }
}
