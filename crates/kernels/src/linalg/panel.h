    // The columns of a panel, where they lie.
    factorise(x + x_at, p.x_row, p.x_column, u32(p.rows), u32(p.columns), z + z_at, p.z_row, u32(p.first), sizes,
              places, lane, threads);
