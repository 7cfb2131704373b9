/* Which passes' boundaries have faces, and the order of their kernels: faces of x (faces_x.cu),
 * rims (faces_rims.cu), faces of y and z (faces_y_z.cu). */
#include "gpu/cuda/faces_plan.cuh"

/* Are there faces of the pass's plan? Its result as such. */
static bool find_form(const struct geometry *g, const struct table_pass *pass, enum face_form *form)
{
    const struct plan *plan = g->plan;
    const struct table_header *header = table_of(plan);
    *form = header->form == TABLE_FORM_SUM               ? FACE_SUM
            : header->operator_id == OPERATOR_GRADIENT   ? FACE_GRADIENT
            : header->operator_id == OPERATOR_DIVERGENCE ? FACE_DIVERGENCE
                                                         : FACE_CURL;
    const bool is_vector = header->form == TABLE_FORM_PARTS && plan->form != PLAN_SCALAR &&
                           header->active == (1 << AXIS_COUNT) - 1;
    return plan->inner && !plan->indexed && !header->shift &&
           (header->form == TABLE_FORM_SUM || is_vector) && !pass->impose && !pass->base &&
           header->source == TABLE_SOURCE_NONE &&
           !(header->halos &&
             (header->operator_id != OPERATOR_DIFFUSION || pass->held != TABLE_STEP));
}

cudaError_t faces_launch(const struct geometry *g, const struct table_pass *pass,
                         struct boundary_rest *left)
{
    face_launcher launch = {g, pass, FACE_SUM, false, NULL};
    const int most =
        table_of(g->plan)->form == TABLE_FORM_SUM ? (int)TABLE_RADIUS : (int)PLAN_RADIUS;
    if (!find_form(g, pass, &launch.form) || g->plan->radius > most) {
        divide_boundary(g->boundary, left, [](auto...) { return false; });
        return cudaSuccess;
    }
    return with_face_kinds(launch, [&](auto type, auto radius, auto) {
        faces_made<decltype(type), decltype(radius)::value> made;
        make_faces(launch, &made, left);
        launch.made = &made;
        cudaError_t error = faces_x_launch(&launch);
        if (error == cudaSuccess)
            error = faces_rims_launch(&launch, left);
        return error == cudaSuccess ? faces_y_z_launch(&launch) : error;
    });
}
