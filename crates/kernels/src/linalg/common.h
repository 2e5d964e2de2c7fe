// Elements of this group's matrices.
#define X(r, c) x[x_at + i64(r) * p.x_row + i64(c) * p.x_column]
#define Y(r, c) y[y_at + i64(r) * p.y_row + i64(c) * p.y_column]
#define Z(r, c) z[z_at + i64(r) * p.z_row + i64(c) * p.z_column]
