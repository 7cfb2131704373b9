/* Operands that the workers copy from clients' regions to their arrays. */
#include "server/devices/device.h"
#include "server/devices/field.h"

void device_copy_operand(struct field *field, const struct region_use *use)
{
    for (uint64_t offset = 0, bytes; offset < field->type.bytes; offset += bytes) {
        uint64_t there;
        struct field *part = field_reference(field_at(field, offset, &there));
        bytes = field_stretch(field, offset);
        part->whole = field_reference(field);
        region_use_share(&part->source, use);
        part->source.offset += offset;
        field->copies++;
        list_push(&part->device->operands, &part->operand_link);
        const struct channel_message message = {
            .type = CHANNEL_UPLOAD,
            .u.copy = {.array = device_array(part),
                       .offset = there,
                       .region = use->region->number,
                       .arena_offset = part->source.offset,
                       .bytes = bytes,
                       .tag = DEVICE_OPERAND_TAG | part->array}};
        device_tell(part->device, &message, NULL);
    }
}

static void end(struct field *part)
{
    struct field *field = part->whole;
    list_remove(&part->operand_link);
    region_use_end(&part->source);
    field_release(part);
    field->copies--;
    device_settle_copies(field);
    field_release(field);
}

/* They end nearly in the order in which they began. */
bool operands_take(struct device *device, uint64_t array)
{
    LIST_EACH (struct field, part, &device->operands, operand_link)
        if (part->array == array) {
            end(part);
            return true;
        }
    return false;
}

void operands_lose(struct device *device)
{
    LIST_DRAIN (struct field, part, &device->operands, operand_link)
        end(part);
}
